"""Find or build the binary of a Kubernetes component.

In this order: a directory set by the user, the cache, the official release (with its published SHA-256), a build
from the public Go modules.
"""

import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.lab import paths
from e2e.lab.binaries import gobuild
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.locking import locked
from e2e.lab.process import run
from e2e.lab.progress import Progress, Quiet

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
COMPONENTS = ("kubelet", "kubeadm", *CONTROL_PLANE)

GO = (1, 24)
"""The oldest Go that builds every supported version; Go itself downloads a newer toolchain if necessary."""

_RELEASES = "https://dl.k8s.io"
_CONNECT_SECONDS = 4.0


def resolve(component: str, version: str, progress: Progress | None = None) -> Path:
    """Return the path of one component's binary, obtaining it first if necessary.

    Raises:
        LabError: if none of the ways works; the message says why.
    """
    return ensure([(component, version)], progress)[component, str(Version.parse(version))]


def ensure(wanted: Iterable[tuple[str, str]], progress: Progress | None = None) -> dict[tuple[str, str], Path]:
    """Return the binaries of ``(component, version)`` pairs; those of one version are built together."""
    progress = progress or Quiet()
    by_version: dict[Version, set[str]] = {}
    for component, version in wanted:
        if component not in COMPONENTS:
            raise LabError(f"cannot provide {component!r}; the lab knows {', '.join(COMPONENTS)}")
        by_version.setdefault(Version.parse(version), set()).add(component)
    found: dict[tuple[str, str], Path] = {}
    for parsed, components in sorted(by_version.items(), reverse=True):
        for component, path in _of_version(parsed, components, progress).items():
            found[component, str(parsed)] = path
    return found


def _of_version(version: Version, components: set[str], progress: Progress) -> dict[str, Path]:
    missing = {component for component in components if _present(component, version) is None}
    if missing:
        with locked(f"components-{version}", progress):
            missing = {component for component in missing if _present(component, version) is None}
            missing -= {component for component in sorted(missing) if _downloaded(component, version, progress)}
            if missing:
                # The kubelet shares nearly all packages with the control plane, and is needed sooner or later.
                _build(version, sorted(missing | {"kubelet"} if missing & set(CONTROL_PLANE) else missing), progress)
    found = {component: _present(component, version) for component in components}
    lost = [component for component, path in found.items() if path is None]
    if lost:
        raise LabError(
            f"cannot find {', '.join(lost)} {version} although it was just built; is the cache being deleted?"
        )
    return {component: path for component, path in found.items() if path is not None}


def _present(component: str, version: Version) -> Path | None:
    given = os.environ.get("NODEUPGRADE_LAB_BINARIES")
    if given:
        for directory in (Path(given) / str(version), Path(given) / version.tag):
            if (directory / component).is_file():
                return directory / component
    cached = _cache(version) / component
    return cached if cached.is_file() else None


def _cache(version: Version) -> Path:
    return paths.cache_root() / "binaries" / f"{_architecture()}-r{gobuild.RECIPE}" / str(version)


def _architecture() -> str:
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    machine = platform.machine()
    if machine not in known:
        raise LabError(f"cannot run the lab on {machine}; it knows x86_64 and aarch64")
    return known[machine]


def _build(version: Version, components: list[str], progress: Progress) -> None:
    if not go_is_new_enough():
        message = f"cannot build {', '.join(components)} {version}, which {_RELEASES} does not offer here either"
        raise LabError(
            f"{message}, because there is no Go ≥ {GO[0]}.{GO[1]} on PATH; install it from https://go.dev/dl"
        )
    if gobuild.needs_c_compiler(version) and shutil.which("gcc") is None:
        message = f"cannot build {', '.join(components)} {version} because it needs a C compiler"
        raise LabError(f"{message}; run `apt-get install gcc libc6-dev`")
    began = time.monotonic()
    with _into_cache(version) as fresh:
        gobuild.build(version, components, fresh, paths.cache_root() / "go", progress)
    progress.say(f"built {', '.join(components)} {version} in {time.monotonic() - began:.0f} s")


def go_is_new_enough() -> bool:
    """Report whether the ``go`` on PATH can build every supported version."""
    if shutil.which("go") is None:
        return False
    version = re.match(r"go(\d+)\.(\d+)", run("go", "env", "GOVERSION").stdout)
    return version is not None and (int(version[1]), int(version[2])) >= GO


@contextmanager
def _into_cache(version: Version) -> Iterator[Path]:
    """Provide a directory whose files are moved into the cache completely, or not at all."""
    target = _cache(version)
    target.mkdir(parents=True, exist_ok=True)
    for stale in target.glob(".new-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target) as directory:
        fresh = Path(directory)
        yield fresh
        for file in fresh.iterdir():
            file.chmod(0o755)
            file.replace(target / file.name)


def _downloaded(component: str, version: Version, progress: Progress) -> bool:
    if os.environ.get("NODEUPGRADE_LAB_DOWNLOAD") == "never":
        return False
    url = f"{_RELEASES}/{version.tag}/bin/linux/{_architecture()}/{component}"
    try:
        with urllib.request.urlopen(f"{url}.sha256", timeout=_CONNECT_SECONDS) as answer:  # noqa: S310 - a constant https URL
            published = answer.read(200).decode().split()[0]
        progress.say(f"downloading {url}")
        with _into_cache(version) as fresh, urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310
            seen = _save(answer, fresh / component)
            if seen != published:
                raise LabError(f"cannot use {url} because its SHA-256 is {seen}, not {published}; try again")
    except (OSError, IndexError, ValueError):  # not reachable from here, or not published: the build is next
        return False
    return True


def _save(stream: IO[bytes], file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("wb") as out:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()
