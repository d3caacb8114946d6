"""Packs the command line as a plugin of kubectl, for krew: what it needs, unpacked, for several Pythons."""

import hashlib
import io
import tarfile
import tempfile
import zipfile
from pathlib import Path

import yaml

from nodeupgrade.api.json import Json
from tools import wheels
from tools.release.manifests import CHECKOUT

PROGRAM = "kubectl-nodeupgrade"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Go's names of the machines, as krew uses them, and the kernel's, as wheels do."""

_LAUNCHER = """#!/bin/sh
# Runs the command line with the newest Python that it has packages for. A name on PATH may be no more than a shim.
# -P: the directory that it is called in holds no module of it.
here=$(dirname "$(readlink -f "$0")")
for version in {versions}; do
    if "python$version" -c '' >/dev/null 2>&1; then
        PYTHONPATH="$here/lib/$version:$here/lib/any" exec "python$version" -sP -c '{start}' "$@"
    fi
done
echo "error: kubectl nodeupgrade needs Python {first} to {last}; install python{last}" >&2
exit 1
"""


_START = f'import sys; from nodeupgrade.cli.main import main; sys.argv[0] = "{PROGRAM}"; main()'
"""Starts the program under the plugin's name, by which it knows how it was called."""


def launcher() -> str:
    """Return the script that kubectl starts."""
    return _LAUNCHER.format(start=_START, versions=" ".join(reversed(PYTHONS)), first=PYTHONS[0], last=PYTHONS[-1])


def archive(destination: Path, own: Path, *, machine: str) -> Path:
    """Write the archive for one machine (`amd64`) and return its path.

    Args:
        destination: directory of the release.
        own: our own wheel.
        machine: Go's name of it.
    """
    files: dict[str, bytes] = {}
    _unpack(own, "lib/any", files)
    for python in PYTHONS:
        with tempfile.TemporaryDirectory(prefix="nodeupgrade-plugin-") as directory:
            lock = wheels.COMMAND_LINE_LOCK
            wheels.dependencies(Path(directory), python=python, machine=MACHINES[machine], lock=lock)
            for wheel in sorted(Path(directory).glob("*.whl")):
                # What fits every Python is there once.
                _unpack(wheel, "lib/any" if wheel.stem.endswith("-none-any") else f"lib/{python}", files)
    target = destination / f"{PROGRAM}-linux-{machine}.tar.gz"
    with tarfile.open(target, "w:gz", compresslevel=6) as packed:
        _add(packed, PROGRAM, launcher().encode(), 0o755)
        _add(packed, "LICENSE", (CHECKOUT / "LICENSE").read_bytes(), 0o644)
        for name, content in sorted(files.items()):
            _add(packed, name, content, 0o644)
    return target


def _unpack(wheel: Path, folder: str, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if not name.endswith("/") and ".data/" not in name:
                files[f"{folder}/{name}"] = packed.read(name)


def _add(packed: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    # No time and no owner, so that the same content is the same archive.
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    packed.addfile(entry, io.BytesIO(content))


def manifest(archives: dict[str, Path], *, version: str, url: str) -> str:
    """Return the krew manifest.

    Args:
        archives: the archive of each machine.
        version: ours, without `v`.
        url: where the files of the release will be.
    """
    platforms = [_platform(machine, path, url) for machine, path in sorted(archives.items())]
    body = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "nodeupgrade"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Upgrade kubelets in place without restarts",
            "description": (
                "Checks NodeUpgrade objects, shows what they would do and how they are doing, and steers them. "
                f"Needs Python {PYTHONS[0]} to {PYTHONS[-1]}, and the nodeupgrade operator in the cluster."
            ),
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(body, sort_keys=False, width=120)


def _platform(machine: str, path: Path, url: str) -> Json:
    return {
        "selector": {"matchLabels": {"os": "linux", "arch": machine}},
        "uri": f"{url}/{path.name}",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bin": PROGRAM,
    }
