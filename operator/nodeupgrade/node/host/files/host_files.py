"""Implements Files on a mounted filesystem."""

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TypeVar

from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files import atomic, misplaced, reading
from nodeupgrade.node.host.files.files import (
    LARGEST_READ,
    MOST_ENTRIES,
    MOST_LINKS,
    DiskUsage,
    EntryKind,
    FileEntry,
    Misplaced,
)
from nodeupgrade.node.host.files.locks import LARGEST as LARGEST_LIST
from nodeupgrade.node.host.files.locks import FileLock, device_of, parse_locks
from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.host.files.system_calls import Disk, Status, kind_of, stamp
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.node.names_beside import UNFINISHED, free_aside, hidden_aside

T = TypeVar("T")

# From linux/fs.h; the request number is the same on all 64-bit architectures.
FS_IOC_GETFLAGS = 0x80086601
APPEND_ONLY, IMMUTABLE = 0x20, 0x10
_PROC = PurePosixPath("/proc")
_OF_KERNEL = (_PROC, PurePosixPath("/sys"))
_GONE = frozenset({errno.ESRCH, errno.ENODEV})
"""What the kernel's files say of a process, or a cgroup, that has ended since they were opened."""


@dataclass(frozen=True, slots=True)
class HostFiles:
    """Files of the node whose root directory is mounted at ``root``.

    Symbolic links are resolved as the node would, and never lead out of ``root``. Reads follow them to the end.
    Only regular files are changed: of a symbolic link, the caller has to say whether it means the link or its target.
    """

    root: Path = Path("/")  # mount point of the node's root directory
    _: KW_ONLY
    disk: Disk = os  # receives the system calls

    def seen(self, path: PurePosixPath) -> Path:
        """Return a path of the node as this process sees it, symbolic links followed as the node would."""
        with translate_errors(f"cannot follow {path}"):
            return resolve(self.root, path, follow_last=True, disk=self.disk)

    def on_node(self, seen: Path) -> PurePosixPath:
        """Return the path on the node of what this process sees at ``seen``."""
        return PurePosixPath("/") / seen.relative_to(self.root)

    def read(self, path: PurePosixPath, *, limit: int = LARGEST_READ) -> bytes | None:
        return self._of(path, lambda found: reading.read_file(found, limit=limit, disk=self.disk))

    def read_state(self, path: PurePosixPath) -> bytes | None:
        with translate_errors(f"cannot read {path}"):
            try:
                with reading.opened(self._unfollowed(path), disk=self.disk) as file:
                    status = self.disk.fstat(file)
                    if status.st_uid != os.geteuid() or status.st_nlink != 1:
                        raise OSError(errno.EPERM, "it belongs to another user, or has a second name")
                    return b"".join(reading.chunks_of(file, reading.LARGEST_STATE, disk=self.disk))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def digest(self, path: PurePosixPath) -> Digest | None:
        return self._of(path, lambda found: reading.digest_of(found, disk=self.disk))

    def size(self, path: PurePosixPath) -> int | None:
        return self._of(path, lambda found: self.disk.stat(found).st_size)

    def stamp(self, path: PurePosixPath) -> str | None:
        return self._of(path, lambda found: stamp(self.disk.stat(found)))

    def executable(self, path: PurePosixPath) -> bool:
        return bool(self._of(path, lambda found: self.disk.stat(found).st_mode & stat.S_IXUSR))

    def _of(self, path: PurePosixPath, look: Callable[[Path], T]) -> T | None:
        """Apply ``look`` to the regular file that a path leads to, if there is one."""
        with translate_errors(f"cannot read {path}"):
            found = self._existing(path)
            try:
                return None if found is None else look(found)
            except FileNotFoundError:  # removed since
                return None
            except OSError as error:
                if error.errno in _GONE and any(map(path.is_relative_to, _OF_KERNEL)):
                    return None
                raise

    def changed(self, path: PurePosixPath) -> float | None:
        """Return the latest mtime or ctime of the file and of every symbolic link on the way to it."""
        with translate_errors(f"cannot read the times of {path}"):
            links: list[Path] = []
            resolved = resolve(self.root, path, follow_last=True, disk=self.disk, links=links)
            try:
                times = [self.disk.lstat(place) for place in (resolved, *links)]
            except (FileNotFoundError, NotADirectoryError):
                return None
            return max(max(status.st_mtime_ns, status.st_ctime_ns) for status in times) / 1e9

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        with translate_errors(f"cannot write {path}"):
            target = self._changeable(path)
            atomic.make_directory(target.parent, disk=self.disk)
            with atomic.fresh_beside(target, mode=mode, disk=self.disk) as fresh:
                atomic.write_all(fresh, data, disk=self.disk)
                if atomic.exists(target, self.disk):
                    atomic.carry_attributes(target, fresh, disk=self.disk)

    def write_state(self, path: PurePosixPath, data: bytes | None, place: PurePosixPath) -> None:
        with translate_errors(f"cannot write {path}"):
            target = self._unfollowed(path)
            if data is None:
                with contextlib.suppress(FileNotFoundError):
                    self.disk.unlink(target)
                atomic.sync_directory(target.parent, self.disk)
                return
            try:
                self._replace(target, data, self.seen(place))
            except OSError as error:
                if error.errno != errno.EXDEV:  # something is mounted at the directory
                    raise
                self._replace(target, data, target.parent)

    def _replace(self, target: Path, data: bytes, place: Path) -> None:
        with atomic.fresh_beside(target, mode=0o600, place=place, disk=self.disk) as fresh:
            atomic.write_all(fresh, data, disk=self.disk)

    def write_kernel(self, path: PurePosixPath, data: bytes) -> None:
        with translate_errors(f"cannot write {path}"):
            descriptor = self.disk.open(self.seen(path), os.O_WRONLY | os.O_CLOEXEC)
            try:
                self.disk.write(descriptor, data)  # the kernel takes such a value at once or not at all
            finally:
                self.disk.close(descriptor)

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        with translate_errors(f"cannot copy {source} to {target}"):
            origin = self._required(source)
            destination = self._changeable(target)
            atomic.make_directory(destination.parent, disk=self.disk)
            with atomic.fresh_beside(destination, mode=0o600, disk=self.disk) as fresh:
                with reading.opened(origin, disk=self.disk) as file:
                    for chunk in reading.chunks_of(file, reading.LARGEST_PROGRAM, disk=self.disk):
                        atomic.write_all(fresh, chunk, disk=self.disk)
                atomic.carry_attributes(origin, fresh, disk=self.disk)

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath, *, mode: int | None = None) -> None:
        with (
            translate_errors(f"cannot give {target} the attributes of {pattern}"),
            reading.opened(self._required(target), disk=self.disk) as descriptor,
        ):
            atomic.carry_attributes(self._required(pattern), descriptor, disk=self.disk)
            if mode is not None:
                self.disk.fchmod(descriptor, mode)
            self.disk.fsync(descriptor)

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        with translate_errors(f"cannot put {source} at {target}"):
            origin = self._required(source)
            destination = self._changeable(target)
            if self._is_same(origin, destination):
                return
            atomic.make_directory(destination.parent, disk=self.disk)
            atomic.replace_by_link(origin, destination, disk=self.disk)

    def remove(self, path: PurePosixPath) -> None:
        with translate_errors(f"cannot remove {path}"):
            target = self._changeable(path)
            atomic.remove_leftover(target, disk=self.disk)
            if atomic.exists(target, self.disk):
                self.disk.unlink(target)
                atomic.sync_directory(target.parent, self.disk)

    def set_aside(self, path: PurePosixPath) -> PurePosixPath | None:
        with translate_errors(f"cannot move aside what lies at {path}"):
            target = self._unfollowed(path)
            if not self._is_there(target) or atomic.is_regular(target, self.disk):
                return None
            aside = free_aside(target, self._is_there)
            misplaced.rename_within(target, aside, self.disk)
            atomic.sync_directory(target.parent, self.disk)
            return path.with_name(aside.name)

    def tidy(self, path: PurePosixPath) -> None:
        with translate_errors(f"cannot clean up beside {path}"):
            atomic.remove_leftover(self._changeable(path), disk=self.disk)

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """Leave out temporary files that a crash of this program left behind."""
        found = self._below(directory, lambda path: atomic.is_regular(path, self.disk))
        return tuple(path for path in found if not path.name.endswith(UNFINISHED))

    def _below(self, directory: PurePosixPath, wanted: Callable[[Path], bool]) -> tuple[PurePosixPath, ...]:
        with translate_errors(f"cannot list {directory}"):
            resolved = resolve(self.root, directory, follow_last=True, disk=self.disk)
            names = self.disk.listdir(resolved) if atomic.exists(resolved, self.disk) else []
            return tuple(directory / name for name in sorted(names) if wanted(resolved / name))

    def walk(self, directory: PurePosixPath, *, deep: bool = True) -> tuple[PurePosixPath, ...]:
        with translate_errors(f"cannot list {directory}"):
            resolved = resolve(self.root, directory, follow_last=True, disk=self.disk)
            files = [path.relative_to(resolved) for path in self._files_in(resolved, deep=deep)]
            return tuple(directory / path for path in sorted(files, key=lambda path: path.parts))

    def _files_in(self, directory: Path, *, deep: bool) -> Iterator[Path]:
        """Yield the regular files in a directory, and links but those to directories; nothing if it cannot be read."""
        pending = [directory]
        while pending:
            here, names = pending.pop(), list[str]()
            with contextlib.suppress(OSError):
                names = self.disk.listdir(here)
            for path in (here / name for name in names):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    mode = self.disk.lstat(path).st_mode
                    pending += [path] if stat.S_ISDIR(mode) and deep else []
                    if stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not self._leads_to_directory(path)):
                        yield path

    def _leads_to_directory(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            led = resolve(self.root, self.on_node(path), follow_last=True, disk=self.disk)
            return stat.S_ISDIR(self.disk.lstat(led).st_mode)
        return False

    def real(self, path: PurePosixPath) -> PurePosixPath | None:
        with translate_errors(f"cannot follow {path}"):
            resolved = resolve(self.root, path, follow_last=True, disk=self.disk)
            return self.on_node(resolved) if atomic.is_regular(resolved, self.disk) else None

    def follow(self, path: PurePosixPath) -> PurePosixPath:
        return self.on_node(self.seen(path))

    def link(self, path: PurePosixPath) -> str | None:
        with translate_errors(f"cannot read the link {path}"):
            try:
                return str(self.disk.readlink(self._unfollowed(path)))
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.EINVAL}:
                    return None
                raise

    def immutable(self, path: PurePosixPath) -> bool:
        """Report whether a file or directory is immutable or append-only; false without support in the filesystem."""
        with translate_errors(f"cannot read the attributes of {path}"):
            try:
                descriptor = os.open(
                    resolve(self.root, path, follow_last=True), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                )
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

    def socket(self, path: PurePosixPath) -> PurePosixPath | None:
        with translate_errors(f"cannot look for a socket at {path}"):
            resolved = resolve(self.root, path, follow_last=True, disk=self.disk)
            return self.on_node(resolved) if self._is_socket(resolved) else None

    def sockets_in(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        return () if self.is_crowded(directory) else self._below(directory, self._is_socket)

    def is_crowded(self, directory: PurePosixPath) -> bool:
        with translate_errors(f"cannot list {directory}"):
            resolved = resolve(self.root, directory, follow_last=True, disk=self.disk)
            if not atomic.exists(resolved, self.disk):
                return False
            with self.disk.scandir(resolved) as found:
                return sum(1 for _ in islice(found, MOST_ENTRIES + 1)) > MOST_ENTRIES

    def remove_links(self, directory: PurePosixPath) -> int:
        with translate_errors(f"cannot remove the links in {directory}"):
            resolved = resolve(self.root, directory, follow_last=True, disk=self.disk)
            if not atomic.exists(resolved, self.disk):
                return 0
            with self.disk.scandir(resolved) as found:
                links = [entry.name for entry in islice((each for each in found if each.is_symlink()), MOST_LINKS)]
            for name in links:
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # another has taken its place
                    self.disk.unlink(resolved / name)
            if links:
                atomic.sync_directory(resolved, self.disk)
        return len(links)

    def misplaced(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> Misplaced | None:
        with translate_errors(f"cannot look at {path}"), self._looking(path, below, directory=directory) as (_, found):
            return found

    def clear_way(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> PurePosixPath | None:
        with translate_errors(f"cannot clear the way to {path}"):
            with self._looking(path, below, directory=directory) as (place, found):
                if found is None:
                    return None
                aside = hidden_aside()
                # Whoever restarts anything looks again, so nothing has to outlive a power failure.
                misplaced.rename_within(place / found.path.name, place / aside, self.disk)
            return found.path.with_name(aside)

    def _looking(
        self, path: PurePosixPath, below: PurePosixPath, *, directory: bool
    ) -> AbstractContextManager[tuple[Path, Misplaced | None]]:
        top = resolve(self.root, below, follow_last=True, disk=self.disk)
        wanted = EntryKind.DIRECTORY if directory else EntryKind.FILE
        return misplaced.look(path, below, top, wanted, disk=self.disk)

    def lockers(
        self, paths: Iterable[PurePosixPath], *, writers: bool = True
    ) -> Mapping[PurePosixPath, tuple[int, ...]]:
        """Where the kernel names another device than stat(2), as on btrfs, a process has to have the file open."""
        listed = (self.read(_PROC / "locks", limit=LARGEST_LIST) or b"").decode(errors="replace")
        try:
            locks = tuple(parse_locks(listed))
        except ValueError as error:
            raise StepFailed(f"cannot read who locks files: {error}") from error
        found = dict[PurePosixPath, tuple[int, ...]]()
        for path in paths:
            status = self._of(path, self.disk.stat)
            of_it = () if status is None else tuple(lock for lock in locks if self._is_on(lock, status))
            if of_it and (writers or not any(lock.writes for lock in of_it)):
                found[path] = tuple(lock.pid for lock in of_it)
        return found

    def _is_on(self, lock: FileLock, status: Status) -> bool:
        if lock.inode != status.st_ino:
            return False
        major = os.major(status.st_dev)
        if lock.device == device_of(major, os.minor(status.st_dev)):
            return True
        return not major and lock.device.startswith(device_of(0, 0)[:3]) and self._has_open(lock.pid, status)

    def _has_open(self, pid: int, status: Status) -> bool:
        """Also true of a process that is not known."""
        opened = self.root / _PROC.relative_to("/") / str(pid) / "fd"
        try:
            return any(self._is_same_file(each, status) for each in opened.iterdir())
        except OSError:
            return True

    @staticmethod
    def _is_same_file(opened: Path, status: Status) -> bool:
        with contextlib.suppress(OSError):
            found = opened.stat()
            return (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)
        return False

    def is_empty(self, directory: PurePosixPath) -> bool:
        return not self._below(directory, lambda _path: True)

    def _is_socket(self, path: Path) -> bool:
        return self._type(path) == stat.S_IFSOCK

    def usage(self, path: PurePosixPath) -> DiskUsage:
        with translate_errors(f"cannot read the free space at {path}"):
            resolved = resolve(self.root, path, follow_last=True, disk=self.disk)
            while not atomic.exists(resolved, self.disk):
                resolved = resolved.parent
            seen = self.disk.statvfs(resolved)
            return DiskUsage(
                size=seen.f_blocks * seen.f_frsize,
                free=seen.f_bavail * seen.f_frsize,
                inodes=seen.f_files,
                free_inodes=seen.f_ffree,
            )

    def entry(self, path: PurePosixPath) -> FileEntry | None:
        with translate_errors(f"cannot look at {path}"):
            resolved = resolve(self.root, path, follow_last=False, disk=self.disk)
            try:
                status = self.disk.lstat(resolved)
            except (FileNotFoundError, NotADirectoryError):
                return None
            return FileEntry(
                kind=kind_of(status),
                mode=stat.S_IMODE(status.st_mode),
                links=status.st_nlink,
                real=self.on_node(resolved),
            )

    def _existing(self, path: PurePosixPath) -> Path | None:
        resolved = resolve(self.root, path, follow_last=True, disk=self.disk)
        try:
            kind = self.disk.lstat(resolved).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        reading.require_regular(kind, path)
        return resolved

    def _required(self, path: PurePosixPath) -> Path:
        resolved = self._existing(path)
        if resolved is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return resolved

    def _changeable(self, path: PurePosixPath) -> Path:
        target = self._unfollowed(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            reading.require_regular(self.disk.lstat(target).st_mode, path)
        return target

    def _unfollowed(self, path: PurePosixPath) -> Path:
        """Return a path of which the last part may be a link."""
        return resolve(self.root, path, follow_last=False, disk=self.disk)

    def _is_there(self, path: Path) -> bool:
        """Report whether anything is at a path, even a link that leads nowhere."""
        return self._type(path) is not None

    def _type(self, path: Path) -> int | None:
        """Return the type of what is at a path itself, such as ``stat.S_IFLNK``; it may be gone by now."""
        try:
            return stat.S_IFMT(self.disk.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_same(self, one: Path, other: Path) -> bool:
        if not atomic.exists(other, self.disk):
            return False
        first, second = self.disk.stat(one), self.disk.stat(other)
        return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
