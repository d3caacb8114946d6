"""Bundles on disk: reading and verifying them, and staging a copy on a node."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Protocol

from nodeupgrade.bundle import MANIFEST, BundleError, Manifest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.atomic import sync_directory, sync_file
from nodeupgrade.text import parse_json

_SYNCING_THREADS = 32
_LABEL = "security.selinux"
_PROGRAM_TYPE = b"bin_t"
"""The type of programs in SELinux policies. systemd may execute them, but not the data below /var/lib."""
_TYPE_FIELD = 2
"""Where the type is in a label: user, role, type, level."""


class Labels(Protocol):
    """The system calls that read and write labels of files; the module ``os`` is the real implementation."""

    def getxattr(self, path: PurePath, attribute: str, /) -> bytes: ...
    def setxattr(self, path: PurePath, attribute: str, value: bytes, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Verified:
    """Remembers which bundles were intact, and what the file system said of their files then.

    To read all files takes half a second on a busy core, and a run asks several times. No content changes without its
    file's change time.
    """

    _known: dict[Path, tuple[frozenset[tuple[str, ...]], Manifest]] = field(default_factory=dict)

    def manifest(self, root: Path) -> Manifest:
        """Return the manifest of the bundle at `root`; otherwise as verify().

        Raises:
            BundleError: as verify().
        """
        stamps, (before, manifest) = _stamps(root), self._known.get(root, (None, None))
        if manifest is None or stamps != before:
            manifest = verify(root)
            self._known[root] = (stamps, manifest)
        return manifest

    def renamed(self, root: Path, target: Path) -> None:
        """Take note that the bundle at `root`, which was intact, is now at `target`."""
        self._known[target] = self._known.pop(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBundles:
    """Implements Bundles."""

    source: Path  # the bundle in this program's image
    parent: Path  # directory of the bundles on the node, as this process sees it
    on_node: PurePosixPath  # the same directory, as the node sees it
    verified: Verified = field(default_factory=Verified)

    def stage(self) -> PurePosixPath:
        try:
            return self.on_node / stage(self.source, self.parent, verified=self.verified).name
        except (OSError, BundleError) as error:
            raise StepFailed(f"cannot stage the executor on the node: {error}") from error

    def retire(self) -> None:
        try:
            current = read_manifest(self.source).name
        except BundleError as error:
            raise StepFailed(str(error)) from error
        retire(self.parent, keep=current)

    def remove(self) -> None:
        retire(self.parent, keep="")


def files(root: Path) -> Iterator[tuple[PurePath, Path]]:
    """Yield (name in the bundle, path) of every regular file except the manifest, sorted."""
    found = sorted((path.relative_to(root), path) for path in root.rglob("*") if path.is_file())
    yield from ((name, path) for name, path in found if str(name) != MANIFEST)


def digest(root: Path) -> str:
    """Return the digest of the files at `root`: names, executable bits and contents."""
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
        BundleError: there is no manifest, or it is not one of ours.
    """
    try:
        fields = parse_json((root / MANIFEST).read_bytes())
        return Manifest(**fields)
    except (OSError, ValueError, TypeError) as error:
        raise BundleError(f"cannot use {root} as a bundle because its {MANIFEST} is unusable: {error}") from error


def write_manifest(root: Path, *, version: str, python: str, machine: str) -> Manifest:
    """Write the manifest of the finished bundle at `root`, adding the digest, and return it."""
    result = Manifest(version=version, python=python, machine=machine, digest=digest(root))
    (root / MANIFEST).write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return result


def verify(root: Path) -> Manifest:
    """Check that the content of `root` matches its manifest, and return the manifest.

    Raises:
        BundleError: a file is missing, changed or unexpected; the message says which digest was expected.
    """
    manifest = read_manifest(root)
    actual = digest(root)
    if actual != manifest.digest:
        raise BundleError(
            f"cannot use the bundle at {root} because its content is {actual} and not {manifest.digest}; "
            f"remove {root} so that it is staged again"
        )
    return manifest


def stage(source: Path, parent: Path, labels: Labels = os, verified: Verified | None = None) -> Path:
    """Copy the bundle at `source` into `parent`, atomically and durably, and return the copy's path.

    The copy is named after version and content. An intact copy that is already there is left alone. Both paths are
    as this process sees them (such as `/host/var/lib/…` in a pod).

    Raises:
        BundleError: `source` has to be copied, and its copy is not what its manifest promises.
        OSError: the copy cannot be written.
    """
    verified = verified or Verified()
    manifest = read_manifest(source)
    target = parent / manifest.name
    if _is_intact(target, manifest, verified):
        _label(target, labels)
        return target
    parent.mkdir(parents=True, exist_ok=True)
    incoming = parent / f".incoming-{manifest.name}"
    for leftover in (incoming, target):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        shutil.copytree(source, incoming)
        _label(incoming, labels)
        verified.manifest(incoming)
        with ThreadPoolExecutor(_SYNCING_THREADS) as threads:
            # Concurrent syncs share the file system's journal commits: one second instead of many.
            list(threads.map(_sync, [*incoming.rglob("*"), incoming]))
        incoming.rename(target)
    except (OSError, BundleError) as error:
        shutil.rmtree(incoming, ignore_errors=True)
        if isinstance(error, shutil.Error):  # a list of all files that could not be copied
            raise OSError(f"{len(error.args[0])} files could not be written, first: {error.args[0][0][2]}") from error
        raise
    verified.renamed(incoming, target)
    sync_directory(parent)
    return target


def retire(parent: Path, keep: str) -> None:
    """Remove all staged bundles in `parent` except `keep`. Call it only when no executor can be running."""
    for path in parent.glob("*"):
        if path.name != keep:
            shutil.rmtree(path, ignore_errors=True)


def _is_intact(target: Path, manifest: Manifest, verified: Verified) -> bool:
    try:
        return verified.manifest(target) == manifest
    except BundleError:
        return False


def _stamps(root: Path) -> frozenset[tuple[str, ...]]:
    """Return what the file system says of all files of a bundle; nothing where there is none."""
    found = ((str(path.relative_to(root)), path.stat()) for path in root.rglob("*") if path.is_file())
    return frozenset(
        (path, *map(str, (s.st_dev, s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns))) for path, s in found
    )


def _label(root: Path, labels: Labels) -> None:
    """Give the programs an SELinux label with which systemd may execute them, where files have labels at all.

    A failure is ignored: before each run, the agent tries whether systemd can execute the programs.
    """
    with contextlib.suppress(OSError):
        fields = labels.getxattr(root, _LABEL).split(b":", 3)
        if len(fields) > _TYPE_FIELD:
            label = b":".join((*fields[:_TYPE_FIELD], _PROGRAM_TYPE, *fields[_TYPE_FIELD + 1 :]))
            for _, path in files(root):
                if path.stat().st_mode & 0o100 and labels.getxattr(path, _LABEL) != label:
                    labels.setxattr(path, _LABEL, label)


def _sync(path: Path) -> None:
    (sync_directory if path.is_dir() else sync_file)(path)
