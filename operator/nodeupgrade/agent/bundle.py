"""The bundle: a Python that runs on any node, whatever the node itself has installed.

A bundle is one directory holding an interpreter, its standard library, the few packages that the executor
needs, every shared library of all these and the dynamic loader that goes with them. Nothing of the host is
used but its kernel. `bundling` makes it when the image is built; this module is what runs with it afterwards.

    bundle.json              what it is, and the digest of everything else
    bin/python3              the interpreter; found again by itself as the prefix two levels up
    lib/ld.so                the dynamic loader
    lib/*.so*                shared libraries
    lib/pythonX.Y/           standard library, packages and nodeupgrade itself
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

from nodeupgrade.adapters.files import sync_directory, sync_file

DEFAULT_LOCATION = PurePath("/opt/nodeupgrade/bundle")
"""Where the image keeps its bundle."""

MANIFEST = "bundle.json"
LOADER = PurePath("lib/ld.so")
LIBRARIES = PurePath("lib")
INTERPRETER = PurePath("bin/python3")

_FLAGS = ("-I", "-S", "-B", "-X", "utf8")
"""Isolated from the environment, no `site`, no writing, UTF-8 whatever the locale."""

_SYNCING_THREADS = 32


class BundleError(Exception):
    """A bundle cannot be built, is incomplete or is not what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a bundle says about itself.

    Attributes:
        version: version of nodeupgrade inside.
        python: version of the interpreter, such as `3.11.2`.
        machine: hardware name as in `uname -m`.
        digest: `sha256:` and 64 hex digits over names, modes and contents of all other files.
    """

    version: str
    python: str
    machine: str
    digest: str

    @property
    def name(self) -> str:
        """Directory name under which this very content is staged on a node."""
        return f"{self.version}-{self.digest.removeprefix('sha256:')[:16]}"


def command(root: PurePath, module: str, *args: str) -> tuple[str, ...]:
    """Return the argument vector that runs `python -m module args…` from the bundle at `root`.

    `root` is the path as the started process will see it. The loader is told where all libraries are and not
    to look at the host's cache; the interpreter finds its prefix from its own path and ignores the environment,
    so no variable has to be set or cleared.
    """
    loader = (str(root / LOADER), "--inhibit-cache", "--library-path", str(root / LIBRARIES))
    return (*loader, str(root / INTERPRETER), *_FLAGS, "-m", module, *args)


def environment(root: PurePath) -> dict[str, str]:
    """Return a complete environment for `command`: nothing of the caller's needs to be inherited.

    The interpreter itself needs none of it. PATH serves the host's own programs that are started from the
    bundle (such as `systemctl`; they use the host's own loader), the last one tells where the bundle lies.
    """
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "NODEUPGRADE_BUNDLE": str(root),
    }


def files(root: Path) -> Iterator[tuple[PurePath, Path]]:
    """Yield (name in the bundle, path) of every regular file but the manifest, in one fixed order."""
    found = sorted((path.relative_to(root), path) for path in root.rglob("*") if path.is_file())
    yield from ((name, path) for name, path in found if str(name) != MANIFEST)


def digest(root: Path) -> str:
    """Return the digest of the files now at `root`: names, executable bits and contents."""
    total = hashlib.sha256()
    for name, path in files(root):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        executable = "x" if path.stat().st_mode & 0o100 else "-"
        total.update(f"{content} {executable} {name.as_posix()}\n".encode())
    return f"sha256:{total.hexdigest()}"


def read_manifest(root: Path) -> Manifest:
    """Read the manifest of the bundle at `root`.

    Raises:
        BundleError: there is none, or it is not one of ours.
    """
    try:
        fields = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
        return Manifest(**fields)
    except (OSError, ValueError, TypeError) as error:
        message = f"cannot use {root} as a bundle because its {MANIFEST} is unusable: {error}"
        raise BundleError(message) from error


def write_manifest(root: Path, *, version: str, python: str, machine: str) -> Manifest:
    """Write the manifest of the finished bundle at `root`, adding the digest, and return it."""
    result = Manifest(version=version, python=python, machine=machine, digest=digest(root))
    (root / MANIFEST).write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return result


def verify(root: Path) -> Manifest:
    """Return the manifest of `root` after checking that the content is what it says.

    Raises:
        BundleError: a file is missing, changed or too many; the message says what was expected.
    """
    manifest = read_manifest(root)
    actual = digest(root)
    if actual != manifest.digest:
        raise BundleError(
            f"cannot use the bundle at {root} because its content is {actual} and not {manifest.digest}; "
            f"remove {root} so that it is staged again"
        )
    return manifest


def stage(source: Path, parent: Path) -> Path:
    """Copy the bundle at `source` below `parent` so that it survives a power cut; return where it is.

    The directory is named after version and content, appears by a rename and is left alone when it is already
    there and intact. Both paths are as this process sees them (such as `/host/var/lib/…` in a pod).

    Raises:
        BundleError: `source` is not an intact bundle.
        OSError: the copy cannot be written.
    """
    manifest = verify(source)
    target = parent / manifest.name
    if _is_intact(target, manifest):
        return target
    parent.mkdir(parents=True, exist_ok=True)
    incoming = parent / f".incoming-{manifest.name}"
    for leftover in (incoming, target):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        shutil.copytree(source, incoming)
        with ThreadPoolExecutor(_SYNCING_THREADS) as threads:
            # Many at once share the file system's journal commits: a second instead of many.
            list(threads.map(_sync, [*incoming.rglob("*"), incoming]))
        incoming.rename(target)
    except OSError as error:
        shutil.rmtree(incoming, ignore_errors=True)
        if isinstance(error, shutil.Error):  # a list of all files that could not be copied
            raise OSError(f"{len(error.args[0])} files could not be written, first: {error.args[0][0][2]}") from error
        raise
    sync_directory(parent)
    return target


def retire(parent: Path, kept: str) -> None:
    """Remove whatever was staged below `parent` but the bundle called `kept`, when no executor can be running."""
    for path in parent.glob("*"):
        if path.name != kept:
            shutil.rmtree(path, ignore_errors=True)


def _is_intact(target: Path, manifest: Manifest) -> bool:
    try:
        return verify(target) == manifest
    except BundleError:
        return False


def _sync(path: Path) -> None:
    (sync_directory if path.is_dir() else sync_file)(path)
