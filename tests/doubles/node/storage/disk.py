"""A disk that loses what was not synchronised when power fails.

Besides what processes see, it knows what is on the platter. A file's content gets there by ``fsync`` of the file, a
name by ``fsync`` of its directory, and by nothing else; so it promises less than any journaling filesystem does.
``after_power_cut`` yields everything that may be found then:

* *Names.* Changes of names that were not synchronised may have reached the platter or not, in any combination, except
  that of two changes to the same name the later is not there without the earlier. A rename is one change.
* *Content.* A file whose content was not synchronised has, independently of every other file: its former content, the
  whole new one, its first half, or its new length in zeros. Code that checks digests or checksums cannot tell one
  partial content from another, so one stands for all.

Somebody else may ``make`` something in place of a file, say of a file that it is huge or cannot be read, and make
directories read-only: every call then fails as on a real disk (tests/contract/node/test_odd_disk.py).

Not modelled: filesystems without a journal (ext2, FAT), where a rename itself may be torn.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from pathlib import PurePath
from typing import TypeAlias

from tests.doubles.node.storage.prefix import common_length
from tests.doubles.node.storage.room import Room

MAX_LINKS = 40
LARGEST_HOLE = 1024
"""Bytes. Whoever reads a huge file to its end finds a small one."""
MOST_PENDING = 12
"""More unsynchronised changes of names in a directory are an error: their outcomes are too many to enumerate."""

Image: TypeAlias = tuple[tuple[str, bytes, int], ...]
"""A disk at rest: path, content and mode of every file, sorted."""
Change: TypeAlias = dict[str, "int | None"]
"""One change of a directory: names added (with the file's number) and removed (``None``), all at once."""


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry of a directory."""

    name: str
    link: bool

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return self.link


@dataclass(slots=True)
class Inode:
    """A file or directory, as seen by processes and as on the platter."""

    mode: int
    data: bytes = b""
    names: dict[str, int] = field(default_factory=dict)  # for a directory, file number by name
    kept_mode: int = 0
    kept_data: bytes = b""
    kept_names: dict[str, int] = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)  # for a directory, changes that are not on the platter yet
    volatile: bool = False  # whether it is ``/run`` or below, which is in memory only
    broken: bool = False  # whether the device cannot read its content
    holes: int = 0  # bytes that its size has beyond its content
    changed: int = 0  # nanoseconds since the epoch


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Implements node.host.files.system_calls.Status."""

    st_mode: int
    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_dev: int = 1
    st_uid: int = os.geteuid()
    st_gid: int = 0
    count_names: Callable[[], int] = lambda: 1

    @property
    def st_nlink(self) -> int:
        """Number of names."""
        return self.count_names()


class ModelDisk:
    """Implements node.host.files.system_calls.Disk.

    Attributes:
        passing: called before each system call that changes something, with its name and path.
        read_only: directories below which nothing can be changed.
        clock: nanoseconds since the epoch.
    """

    def __init__(self) -> None:
        self.passing: Callable[[str, str], None] = lambda _call, _path: None
        self.read_only: set[str] = set()
        self.clock: Callable[[], int] = lambda: 0
        self.load(())

    def load(self, image: Image) -> None:
        """Replace everything by what was found when the power came back."""
        self._inodes = {1: Inode(mode=stat.S_IFDIR | 0o755)}
        self._open: dict[int, tuple[int, int, str]] = {}
        self._numbered = 1
        self._paths: tuple[str, ...] | None = None
        for path, data, mode in image:
            self.put(path, data, mode)

    def put(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Put a file on the platter, as if it had always been there; a new one has mode 0644 by default.

        Raises:
            OSError: a directory lies there.
        """
        *directories, name = _path(path).parts[1:]
        where = self._inodes[1]
        for number, directory in enumerate(directories, 1):
            if directory not in where.names:
                self._add(where, directory, Inode(mode=stat.S_IFDIR | 0o755))
            where = self._inodes[self._required(PurePath("/", *directories[:number]))]
        if name in where.names and not stat.S_ISREG((found := self._inodes[where.names[name]]).mode):
            if stat.S_ISDIR(found.mode):
                raise _error(errno.EISDIR, PurePath(path))
            del where.names[name]
        if name not in where.names:
            self._add(where, name, Inode(mode=stat.S_IFREG | 0o644, kept_mode=stat.S_IFREG | 0o644))
        file = self._inodes[where.names[name]]
        file.data = file.kept_data = data
        file.changed = self.clock()
        if mode is not None:
            file.mode = file.kept_mode = stat.S_IFREG | mode

    def make(self, path: str, inode: Inode | None) -> Inode | None:
        """Have somebody else put something at a path, or remove what is there, with all that is in it; return that."""
        above = self._parent(_path(path))
        before = above.names.pop(_path(path).name, None)
        self._paths, above.changed = None, self.clock()
        if inode is not None:
            inode.kept_mode, inode.kept_data = inode.mode, inode.data
            self._add(above, _path(path).name, inode)
        return None if before is None else self._inodes[before]

    def at(self, path: str) -> Inode | None:
        """What is at a path; a link is not followed."""
        try:
            number = self._find(_path(path), follow=False)
        except OSError:
            return None
        return None if number is None else self._inodes[number]

    def content(self, path: str) -> bytes | None:
        """The content that processes read; ``None`` if there is no such file.

        Raises:
            OSError: something else lies there, or it cannot be read.
        """
        number = self._find(_path(path))
        if number is not None and self._inodes[number].holes:
            raise _error(errno.EFBIG, _path(path))
        return None if number is None else _readable(self._inodes[number], path)

    def path(self, descriptor: int) -> str:
        """The path by which a file was opened."""
        return self._open[descriptor][2]

    def image(self) -> Image:
        """The disk as processes see it."""
        return tuple(sorted((p, i.data, i.mode & 0o7777) for p, i in self._walk(lambda d: d.names)))

    def paths(self) -> tuple[str, ...]:
        """The paths of all files, as processes see them; sorted."""
        if self._paths is None:
            self._paths = tuple(sorted(path for path, _ in self._walk(lambda d: d.names)))
        return self._paths

    def after_power_cut(self) -> Iterator[Image]:
        """Yield every disk that may be found when the power comes back, most of them once."""
        directories = [inode for inode in self._inodes.values() if inode.pending]
        for choice in product(*(list(_kept_names(inode)) for inode in directories)):
            names = {id(inode): kept for inode, kept in zip(directories, choice, strict=True)}
            found = list(self._walk(lambda d, names=names: names.get(id(d), d.kept_names)))  # type: ignore[misc]
            for contents in product(*(list(_kept_contents(inode)) for _, inode in found)):
                yield tuple(sorted((p, *content) for (p, _), content in zip(found, contents, strict=True)))

    # --- system calls that change something ----------------------------------------------------------------------

    def open(self, path: PurePath, flags: int, mode: int = 0o777, /) -> int:
        """Open a file or directory; create it if requested."""
        path = self._named(path)
        if path.parent == PurePath("/proc/self/fd"):
            number: int | None = self._open[int(path.name)][0]
            path = PurePath(self.path(int(path.name)))
        else:
            path = path if flags & (os.O_EXCL | os.O_NOFOLLOW) else self._end(path)
            number = self._find(path, follow=False)
        if number is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            self._require_writable(path)
            self.passing("create", str(path))
            number = self._add(self._parent(path), path.name, Inode(mode=stat.S_IFREG | mode), pending=True)
        elif flags & os.O_EXCL:
            raise _error(errno.EEXIST, path)
        elif not flags & os.O_PATH:
            self._require_openable(self._inodes[number].mode, path, flags)
        descriptor = max(self._open, default=2) + 1
        self._open[descriptor] = (number, 0, str(path))
        return descriptor

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        """Write at the descriptor's position."""
        number, position, path = self._open[fd]
        self._require_writable(PurePath(path))
        self.passing("write", path)
        inode = self._inodes[number]
        inode.data = inode.data[:position].ljust(position, b"\0") + bytes(data) + inode.data[position + len(data) :]
        inode.changed = self.clock()
        self._open[fd] = (number, position + len(data), path)
        return len(data)

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Truncate, or extend with zeros."""
        self._require_writable(PurePath(self._open[fd][2]))
        self.passing("truncate", self._open[fd][2])
        inode = self._inode(fd)
        inode.data = inode.data[:length].ljust(length, b"\0")

    def posix_fallocate(self, fd: int, _offset: int, _length: int, /) -> None:
        """Allocate one byte whatever the length, which keeps images small."""
        self._require_writable(PurePath(self._open[fd][2]))
        self.passing("fallocate", self._open[fd][2])
        self._inode(fd).data = b"\0"

    def fsync(self, fd: int, /) -> None:
        """Synchronise everything about a file, or the names in a directory."""
        self.passing("fsync", self._open[fd][2])
        inode = self._inode(fd)
        if not inode.volatile:
            inode.kept_data, inode.kept_mode, inode.kept_names = inode.data, inode.mode, dict(inode.names)
        inode.pending.clear()

    def fdatasync(self, fd: int, /) -> None:
        """Synchronise a file's content."""
        self.passing("fdatasync", self._open[fd][2])
        self._inode(fd).kept_data = self._inode(fd).data

    def fchmod(self, fd: int, mode: int, /) -> None:
        """Change permissions."""
        self._require_writable(PurePath(self._open[fd][2]))
        self.passing("chmod", self._open[fd][2])
        inode = self._inode(fd)
        inode.mode = stat.S_IFMT(inode.mode) | mode

    def mkdir(self, path: PurePath, mode: int = 0o777, /) -> None:
        """Create a directory."""
        if self._find(path, follow=False) is not None:
            raise _error(errno.EEXIST, path)
        self._require_writable(path)
        self.passing("mkdir", str(path))
        self._add(self._parent(path), path.name, Inode(mode=stat.S_IFDIR | mode), pending=True)

    def rmdir(self, path: PurePath, /) -> None:
        """Remove an empty directory."""
        self._require_writable(path)
        inode = self._inodes[self._required(path, follow=False)]
        if not stat.S_ISDIR(inode.mode):
            raise _error(errno.ENOTDIR, path)
        if inode.names:
            raise _error(errno.ENOTEMPTY, path)
        self._unlink(path)

    def link(self, src: PurePath, dst: PurePath, /) -> None:
        """Give a file one more name."""
        number = self._required(src, follow=False)
        if self._find(dst, follow=False) is not None:
            raise _error(errno.EEXIST, dst)
        self._require_writable(dst)
        if stat.S_ISDIR(self._inodes[number].mode):
            raise _error(errno.EPERM, src)
        self.passing("link", str(dst))
        self._change(self._parent(dst), {dst.name: number})

    def rename(self, src: PurePath, dst: PurePath, /) -> None:
        """Rename a file or directory within its directory."""
        if src.parent != dst.parent:
            raise _error(errno.EXDEV, dst)
        self._require_writable(dst)
        src, dst = self._named(src), self._named(dst)
        number, present = self._required(src, follow=False), self._find(dst, follow=False)
        if present is not None:
            self._require_exchangeable(self._inodes[number], self._inodes[present], dst)
        self.passing("rename", str(dst))
        self._change(self._parent(dst), {src.name: None, dst.name: number})

    def unlink(self, path: PurePath, /) -> None:
        """Remove a name."""
        self._require_writable(path)
        if stat.S_ISDIR(self._inodes[self._required(path, follow=False)].mode):
            raise _error(errno.EISDIR, path)
        self._unlink(path)

    def _unlink(self, path: PurePath) -> None:
        self.passing("unlink", str(path))
        self._change(self._parent(path), {path.name: None})

    # --- system calls that only read -----------------------------------------------------------------------------

    def close(self, fd: int, /) -> None:
        """Close a descriptor, which synchronises nothing."""
        del self._open[fd]

    def read(self, fd: int, length: int, /) -> bytes:
        """Read from the descriptor's position."""
        number, position, path = self._open[fd]
        data = _readable(self._inodes[number], path)[position : position + length]
        self._open[fd] = (number, position + len(data), path)
        return data

    def lseek(self, fd: int, position: int, _whence: int, /) -> int:
        """Move to a position counted from the beginning."""
        number, _, path = self._open[fd]
        self._open[fd] = (number, position, path)
        return position

    def fstat(self, fd: int, /) -> FileStatus:
        """The status of an open file."""
        return self._status(self._open[fd][0])

    def stat(self, path: PurePath, /) -> FileStatus:
        """The status of a file."""
        return self._status(self._required(path))

    def lstat(self, path: PurePath, /) -> FileStatus:
        """The status of a file; a link is not followed."""
        path = self._named(path)
        return self._status(self._required(path, follow=False))

    def readlink(self, path: PurePath, /) -> str:
        """What a symbolic link says."""
        inode = self._inodes[self._required(path, follow=False)]
        if not stat.S_ISLNK(inode.mode):
            raise _error(errno.EINVAL, path)
        return inode.data.decode()

    def listdir(self, path: PurePath, /) -> list[str]:
        """Names in a directory."""
        inode = self._inodes[self._required(path)]
        if not stat.S_ISDIR(inode.mode):
            raise _error(errno.ENOTDIR, path)
        return list(inode.names)

    @contextmanager
    def scandir(self, path: PurePath, /) -> Iterator[Iterator["Listed"]]:
        """Names in a directory, and which of them are links."""
        names = self.listdir(path)
        yield iter([Listed(name, stat.S_ISLNK(self.lstat(path / name).st_mode)) for name in names])

    def statvfs(self, _path: PurePath, /) -> Room:
        """Always plenty."""
        return Room()

    def fchown(self, fd: int, uid: int, gid: int, /) -> None:
        """Everything belongs to root."""

    def listxattr(self, _path: PurePath, /) -> list[str]:
        """There are none."""
        return []

    def getxattr(self, path: PurePath, _attribute: str, /) -> bytes:
        """There are none."""
        raise _error(errno.ENODATA, path)

    def setxattr(self, _path: int, _attribute: str, _value: bytes, /) -> None:
        """Extended attributes are not supported."""
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    def removexattr(self, _path: PurePath | int, _attribute: str, /) -> None:
        """Extended attributes are not supported."""
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    # -------------------------------------------------------------------------------------------------------------

    def _add(self, directory: Inode, name: str, inode: Inode, *, pending: bool = False) -> int:
        self._numbered += 1
        self._inodes[self._numbered] = inode
        inode.changed = directory.changed = self.clock()
        inode.volatile = directory.volatile or (directory is self._inodes[1] and name == "run")
        if pending:
            self._change(directory, {name: self._numbered})
        else:
            directory.names[name] = directory.kept_names[name] = self._numbered
            self._paths = None
        return self._numbered

    def _change(self, directory: Inode, change: Change) -> None:
        directory.pending += [] if directory.volatile else [change]
        directory.changed = self.clock()
        _apply(directory.names, change)
        self._paths = None

    def _find(self, path: PurePath, *, follow: bool = True) -> int | None:
        """Return the number of what a path leads to; ``None`` if there is nothing.

        Args:
            path: the path.
            follow: whether to follow a link at its end, too.
        """
        way, pending, links = [1], [*reversed(path.parts[1:])], 0
        while pending:
            part, inode = pending.pop(), self._inodes[way[-1]]
            if not stat.S_ISDIR(inode.mode):
                raise _error(errno.ENOTDIR, path)
            if part == "..":
                del way[max(1, len(way) - 1) :]
                continue
            if part not in inode.names:
                return None
            number = inode.names[part]
            if stat.S_ISLNK((found := self._inodes[number]).mode) and (pending or follow):
                links += 1
                if links > MAX_LINKS:
                    raise _error(errno.ELOOP, path)
                target = PurePath(found.data.decode())
                del way[1 if target.is_absolute() else len(way) :]
                pending += [each for each in reversed(target.parts) if each != "/"]
                continue
            way.append(number)
        return way[-1]

    def _named(self, path: PurePath) -> PurePath:
        """Return the path of what is in an open directory, by the name of that."""
        if path.is_relative_to("/proc/self/fd") and len(path.parts) > len(PurePath("/proc/self/fd/3").parts):
            return PurePath(self.path(int(path.parts[4])), *path.parts[5:])
        return path

    def _end(self, path: PurePath) -> PurePath:
        """Return where the links at the end of a path lead."""
        for _ in range(MAX_LINKS + 1):
            number = self._find(path, follow=False)
            if number is None or not stat.S_ISLNK(self._inodes[number].mode):
                return path
            path = path.parent / self._inodes[number].data.decode()
        raise _error(errno.ELOOP, path)

    def _require_openable(self, mode: int, path: PurePath, flags: int) -> None:
        if stat.S_ISLNK(mode):  # O_NOFOLLOW
            raise _error(errno.ELOOP, path)
        if flags & os.O_DIRECTORY and not stat.S_ISDIR(mode):
            raise _error(errno.ENOTDIR, path)
        if stat.S_ISFIFO(mode) and not flags & os.O_RDWR:
            raise RuntimeError(f"whoever opens the pipe {path} waits for another to open it")
        if stat.S_ISSOCK(mode):
            raise _error(errno.ENXIO, path)
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and stat.S_ISDIR(mode):
            raise _error(errno.EISDIR, path)
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._require_writable(path)

    def _require_exchangeable(self, moved: Inode, present: Inode, path: PurePath) -> None:
        if stat.S_ISDIR(present.mode) != stat.S_ISDIR(moved.mode):
            raise _error(errno.EISDIR if stat.S_ISDIR(present.mode) else errno.ENOTDIR, path)
        if present.names:
            raise _error(errno.ENOTEMPTY, path)

    def _require_writable(self, path: PurePath) -> None:
        if any(path.is_relative_to(directory) for directory in self.read_only):
            raise _error(errno.EROFS, path)

    def _required(self, path: PurePath, *, follow: bool = True) -> int:
        number = self._find(path, follow=follow)
        if number is None:
            raise _error(errno.ENOENT, path)
        return number

    def _parent(self, path: PurePath) -> Inode:
        return self._inodes[self._required(path.parent)]

    def _inode(self, descriptor: int) -> Inode:
        return self._inodes[self._open[descriptor][0]]

    def _status(self, number: int) -> FileStatus:
        inode = self._inodes[number]
        every = self._inodes.values()
        size = len(inode.data) + inode.holes
        return FileStatus(
            inode.mode,
            number,
            size,
            st_mtime_ns=inode.changed,
            st_ctime_ns=inode.changed,
            count_names=lambda: sum(number in i.names.values() for i in every),
        )

    def _walk(self, names: Callable[[Inode], dict[str, int]]) -> Iterator[tuple[str, Inode]]:
        pending = [("", self._inodes[1])]
        while pending:
            path, directory = pending.pop()
            for name, number in names(directory).items():
                inode = self._inodes[number]
                if stat.S_ISDIR(inode.mode):
                    pending.append((f"{path}/{name}", inode))
                else:
                    yield f"{path}/{name}", inode


@lru_cache(maxsize=1024)
def _path(path: str) -> PurePath:
    """Return a path, taken apart once: the same few are asked for at each look at the disk."""
    return PurePath(path)


def _readable(inode: Inode, path: str) -> bytes:
    if stat.S_ISDIR(inode.mode):
        raise _error(errno.EISDIR, PurePath(path))
    if not stat.S_ISREG(inode.mode):
        raise _error(errno.ENXIO, PurePath(path))
    if inode.broken:
        raise _error(errno.EIO, PurePath(path))
    return inode.data + bytes(min(inode.holes, LARGEST_HOLE))


def _apply(names: dict[str, int], change: Change) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def _kept_names(directory: Inode) -> Iterator[dict[str, int]]:
    """Yield the names that a directory may hold after a power cut."""
    changes = directory.pending
    if len(changes) > MOST_PENDING:
        raise RuntimeError(f"{len(changes)} changes of names are not synchronised: too many to try them all")
    for kept in product((False, True), repeat=len(changes)):
        if any(kept[later] and not kept[earlier] for earlier, later in _dependent(changes)):
            continue
        names = dict(directory.kept_names)
        for change, is_kept in zip(changes, kept, strict=True):
            if is_kept:
                _apply(names, change)
        yield names


def _dependent(changes: list[Change]) -> Iterator[tuple[int, int]]:
    for later, change in enumerate(changes):
        for earlier in range(later):
            if change.keys() & changes[earlier].keys():
                yield earlier, later


def _kept_contents(file: Inode) -> Iterator[tuple[bytes, int]]:
    mode, before, after = stat.S_IMODE(file.kept_mode or file.mode), file.kept_data, file.data
    if before == after and mode == stat.S_IMODE(file.mode):
        yield after, mode
        return
    common = common_length(before, after)
    torn = after[: (common + len(after)) // 2]
    zeros = after[:common].ljust(len(after), b"\0")
    yield from product(dict.fromkeys((before, torn, zeros, after)), dict.fromkeys((mode, stat.S_IMODE(file.mode))))


def _error(code: int, path: PurePath) -> OSError:
    return OSError(code, os.strerror(code), str(path))
