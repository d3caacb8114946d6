"""Implements ports.files.Files on a mounted filesystem."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.atomic import LEFTOVER, carry_attributes, fresh_beside, replace_by_link, sync_directory
from nodeupgrade.adapters.files.confine import resolve
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.values import Digest


class HostFiles:
    """Files of the node whose root directory is seen at ``root``.

    Symbolic links are resolved as the node would, never out of ``root``. Reading follows them to the end;
    changing a path that *is* a symbolic link, or anything but a regular file, is refused: whether the link or
    its target is meant is for the caller to say.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self, path: PurePosixPath) -> bytes | None:
        """Whole content; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            found = self._existing(path)
            return None if found is None else found.read_bytes()

    def digest(self, path: PurePosixPath) -> Digest | None:
        """SHA-256 of the content; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            found = self._existing(path)
            if found is None:
                return None
            with found.open("rb") as file:
                return Digest(hashlib.file_digest(file, "sha256").hexdigest())

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file atomically; ``mode`` is for a file that is not there yet."""
        with _failing(f"cannot write {path}"):
            target = self._changeable(path)
            self._make_parents(target)
            with fresh_beside(target, mode=mode) as file:
                file.write(data)
                if target.exists():
                    carry_attributes(target, file.fileno())

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Copy content, mode, owner and extended attributes; the target appears whole."""
        with _failing(f"cannot copy {source} to {target}"):
            origin = self._required(source)
            goal = self._changeable(target)
            self._make_parents(goal)
            with origin.open("rb") as reader, fresh_beside(goal, mode=0o600) as writer:
                shutil.copyfileobj(reader, writer, 1024 * 1024)
                carry_attributes(origin, writer.fileno())

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``pattern``."""
        with _failing(f"cannot give {target} the attributes of {pattern}"):
            descriptor = os.open(self._required(target), os.O_RDONLY | os.O_CLOEXEC)
            try:
                carry_attributes(self._required(pattern), descriptor)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Put the content of ``source`` at ``target`` by link and rename; ``source`` stays. Same filesystem.

        Both names are one file afterwards: it has the mode, owner and attributes of ``source``.
        """
        with _failing(f"cannot put {source} at {target}"):
            origin = self._required(source)
            goal = self._changeable(target)
            if goal.exists() and goal.samefile(origin):
                return
            self._make_parents(goal)
            replace_by_link(origin, goal)

    def remove(self, path: PurePosixPath) -> None:
        """Remove a file; no error when it is not there."""
        with _failing(f"cannot remove {path}"):
            target = self._changeable(path)
            if target.exists():
                target.unlink()
                sync_directory(target.parent)

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Regular files in a directory, sorted; empty when there is no such directory.

        Temporary files that a crash of this program left are not listed.
        """
        with _failing(f"cannot list {directory}"):
            found = resolve(self._root, directory, follow_last=True)
            if not found.exists():
                return ()
            names = [e.name for e in os.scandir(found) if e.is_file(follow_symlinks=False)]
            return tuple(directory / name for name in sorted(names) if not name.endswith(LEFTOVER))

    def free_bytes(self, path: PurePosixPath) -> int:
        """Bytes an unprivileged writer could still use on the filesystem holding ``path``."""
        with _failing(f"cannot ask for the free space at {path}"):
            found = resolve(self._root, path, follow_last=True)
            while not found.exists():
                found = found.parent
            usage = os.statvfs(found)
            return usage.f_bavail * usage.f_frsize

    def _existing(self, path: PurePosixPath) -> Path | None:
        found = resolve(self._root, path, follow_last=True)
        try:
            kind = found.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        _require_regular(kind, path)
        return found

    def _required(self, path: PurePosixPath) -> Path:
        found = self._existing(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found

    def _changeable(self, path: PurePosixPath) -> Path:
        target = resolve(self._root, path, follow_last=False)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _require_regular(target.lstat().st_mode, path)
        return target

    def _make_parents(self, target: Path) -> None:
        missing = [d for d in target.parents if not d.exists()]
        for directory in reversed(missing):
            directory.mkdir(mode=0o755, exist_ok=True)
            sync_directory(directory.parent)


def _require_regular(kind: int, path: PurePosixPath) -> None:
    if stat.S_ISLNK(kind):
        raise OSError(errno.EINVAL, "it is a symbolic link; name the file it points to", str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextlib.contextmanager
def _failing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise StepFailed(f"{what} because {reason}") from error
