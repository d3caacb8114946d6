"""Implements ports.files.Files on a mounted filesystem."""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.atomic import (
    LEFTOVER,
    carry_attributes,
    exists,
    fresh_beside,
    is_regular,
    make_directory,
    read_chunks,
    remove_leftover,
    replace_by_link,
    sync_directory,
    write_all,
)
from nodeupgrade.adapters.files.confine import resolve
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.ports.disk import Disk

# From linux/fs.h; the number of the request is the same on every 64-bit architecture.
FS_IOC_GETFLAGS = 0x80086601
APPEND_ONLY, IMMUTABLE = 0x20, 0x10


class HostFiles:
    """Files of the node whose root directory is seen at ``root``.

    Symbolic links are resolved as the node would, never out of ``root``. Reading follows them to the end;
    changing a path that *is* a symbolic link, or anything but a regular file, is refused: whether the link or
    its target is meant is for the caller to say.

    Args:
        root: where the node's root directory is seen.
        disk: what the system calls go to.
    """

    def __init__(self, root: Path = Path("/"), *, disk: Disk = os) -> None:
        self._root = root
        self._disk = disk

    def read(self, path: PurePosixPath) -> bytes | None:
        """Whole content; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            found = self._existing(path)
            return None if found is None else b"".join(read_chunks(found, disk=self._disk))

    def digest(self, path: PurePosixPath) -> Digest | None:
        """SHA-256 of the content; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            found = self._existing(path)
            if found is None:
                return None
            digest = hashlib.sha256()
            for chunk in read_chunks(found, disk=self._disk):
                digest.update(chunk)
            return Digest(digest.hexdigest())

    def size(self, path: PurePosixPath) -> int | None:
        """Bytes of the content; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            found = self._existing(path)
            return None if found is None else self._disk.stat(found).st_size

    def stamp(self, path: PurePosixPath) -> str | None:
        """Device, number, size and time of the last writing; ``None`` when there is no such file."""
        with _failing(f"cannot read {path}"):
            if (found := self._existing(path)) is None:
                return None
            status = self._disk.stat(found)
            return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"

    def changed(self, path: PurePosixPath) -> float | None:
        """Latest time of change of content or attributes, of the path and of every symbolic link that leads to it."""
        with _failing(f"cannot ask for the times of {path}"):
            links: list[Path] = []
            found = resolve(self._root, path, follow_last=True, disk=self._disk, links=links)
            try:
                times = [self._disk.lstat(place) for place in (found, *links)]
            except (FileNotFoundError, NotADirectoryError):
                return None
            return max(max(status.st_mtime_ns, status.st_ctime_ns) for status in times) / 1e9

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        """Replace the file atomically; ``mode`` is for a file that is not there yet."""
        with _failing(f"cannot write {path}"):
            target = self._changeable(path)
            make_directory(target.parent, disk=self._disk)
            with fresh_beside(target, mode=mode, disk=self._disk) as fresh:
                write_all(fresh, data, disk=self._disk)
                if exists(target, self._disk):
                    carry_attributes(target, fresh, disk=self._disk)

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Copy content, mode, owner and extended attributes; the target appears whole."""
        with _failing(f"cannot copy {source} to {target}"):
            origin = self._required(source)
            goal = self._changeable(target)
            make_directory(goal.parent, disk=self._disk)
            with fresh_beside(goal, mode=0o600, disk=self._disk) as fresh:
                for chunk in read_chunks(origin, disk=self._disk):
                    write_all(fresh, chunk, disk=self._disk)
                carry_attributes(origin, fresh, disk=self._disk)

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``pattern``."""
        with _failing(f"cannot give {target} the attributes of {pattern}"):
            descriptor = self._disk.open(self._required(target), os.O_RDONLY | os.O_CLOEXEC)
            try:
                carry_attributes(self._required(pattern), descriptor, disk=self._disk)
                self._disk.fsync(descriptor)
            finally:
                self._disk.close(descriptor)

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Put the content of ``source`` at ``target`` by link and rename; ``source`` stays. Same filesystem.

        Both names are one file afterwards: it has the mode, owner and attributes of ``source``.
        """
        with _failing(f"cannot put {source} at {target}"):
            origin = self._required(source)
            goal = self._changeable(target)
            if self._is_same(origin, goal):
                return
            make_directory(goal.parent, disk=self._disk)
            replace_by_link(origin, goal, disk=self._disk)

    def remove(self, path: PurePosixPath) -> None:
        """Remove a file, and what an interrupted change of it left; no error when it is not there."""
        with _failing(f"cannot remove {path}"):
            target = self._changeable(path)
            remove_leftover(target, disk=self._disk)
            if exists(target, self._disk):
                self._disk.unlink(target)
                sync_directory(target.parent, self._disk)

    def tidy(self, path: PurePosixPath) -> None:
        """Remove what an interrupted change of ``path`` left beside it."""
        with _failing(f"cannot tidy up beside {path}"):
            remove_leftover(self._changeable(path), disk=self._disk)

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Regular files in a directory, sorted; empty when there is no such directory.

        Temporary files that a crash of this program left are not listed.
        """
        with _failing(f"cannot list {directory}"):
            found = resolve(self._root, directory, follow_last=True, disk=self._disk)
            if not exists(found, self._disk):
                return ()
            names = [n for n in self._disk.listdir(found) if is_regular(found / n, self._disk)]
            return tuple(directory / name for name in sorted(names) if not name.endswith(LEFTOVER))

    def walk(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Regular files and symbolic links in a directory and in those below it, in the order of their names."""
        with _failing(f"cannot list {directory}"):
            found = resolve(self._root, directory, follow_last=True)
            below = [Path(place) / name for place, _, names in os.walk(found) for name in names]
            files = [path.relative_to(found) for path in below if path.is_symlink() or path.is_file()]
            return tuple(directory / path for path in sorted(files, key=lambda path: path.parts))

    def immutable(self, path: PurePosixPath) -> bool:
        """Whether a file or directory is immutable or append-only; filesystems without such attributes have none."""
        with _failing(f"cannot ask for the attributes of {path}"):
            try:
                descriptor = os.open(resolve(self._root, path, follow_last=True), os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return False
            try:
                answer = fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, bytes(8))
            except OSError as error:
                if error.errno in {errno.ENOTTY, errno.ENOTSUP, errno.EINVAL}:
                    return False
                raise
            finally:
                os.close(descriptor)
            return bool(int.from_bytes(answer[:4], sys.byteorder) & (IMMUTABLE | APPEND_ONLY))

    def free_bytes(self, path: PurePosixPath) -> int:
        """Bytes an unprivileged writer could still use on the filesystem holding ``path``."""
        with _failing(f"cannot ask for the free space at {path}"):
            found = resolve(self._root, path, follow_last=True, disk=self._disk)
            while not exists(found, self._disk):
                found = found.parent
            usage = self._disk.statvfs(found)
            return usage.f_bavail * usage.f_frsize

    def _existing(self, path: PurePosixPath) -> Path | None:
        found = resolve(self._root, path, follow_last=True, disk=self._disk)
        try:
            kind = self._disk.lstat(found).st_mode
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
        target = resolve(self._root, path, follow_last=False, disk=self._disk)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            _require_regular(self._disk.lstat(target).st_mode, path)
        return target

    def _is_same(self, one: Path, other: Path) -> bool:
        if not exists(other, self._disk):
            return False
        first, second = self._disk.stat(one), self._disk.stat(other)
        return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


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
