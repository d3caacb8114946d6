"""The system calls by which files are read and changed.

The module ``os`` is the real implementation. Everything that a run keeps on a node's disk goes through these, and
through nothing else, so that a test can put a disk underneath that loses what was not synchronised when power fails.
"""

from pathlib import PurePath
from typing import Protocol


class Status(Protocol):
    """What is known about a file; as ``os.stat_result``."""

    @property
    def st_mode(self) -> int:
        """Kind and permissions."""
        ...

    @property
    def st_dev(self) -> int:
        """Filesystem."""
        ...

    @property
    def st_ino(self) -> int:
        """Number of the file on its filesystem."""
        ...

    @property
    def st_size(self) -> int:
        """Bytes."""
        ...

    @property
    def st_uid(self) -> int:
        """Owner."""
        ...

    @property
    def st_gid(self) -> int:
        """Group."""
        ...

    @property
    def st_mtime_ns(self) -> int:
        """Last change of the content, nanoseconds since the epoch."""
        ...

    @property
    def st_ctime_ns(self) -> int:
        """Last change of the file, its names and attributes included, nanoseconds since the epoch."""
        ...


class Space(Protocol):
    """How full a filesystem is; as ``os.statvfs_result``."""

    @property
    def f_bavail(self) -> int:
        """Blocks an unprivileged writer could still use."""
        ...

    @property
    def f_frsize(self) -> int:
        """Bytes of a block."""
        ...


class Disk(Protocol):
    """System calls of the same names. Every one raises OSError, with the errno that Linux gives."""

    def open(self, path: PurePath, flags: int, mode: int = 0o777, /) -> int:
        """Open a file or directory."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a descriptor."""
        ...

    def read(self, fd: int, length: int, /) -> bytes:
        """Read at most ``length`` bytes; none at the end."""
        ...

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        """Write some or all bytes; say how many."""
        ...

    def lseek(self, fd: int, position: int, whence: int, /) -> int:
        """Go to a position."""
        ...

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Cut off, or extend by zeros."""
        ...

    def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None:
        """Reserve space."""
        ...

    def fsync(self, fd: int, /) -> None:
        """Wait until content and attributes of a file, or the names in a directory, are on stable storage."""
        ...

    def fdatasync(self, fd: int, /) -> None:
        """Wait until the content of a file is on stable storage."""
        ...

    def fstat(self, fd: int, /) -> Status:
        """What is known about an open file."""
        ...

    def fchmod(self, fd: int, mode: int, /) -> None:
        """Change permissions."""
        ...

    def fchown(self, fd: int, uid: int, gid: int, /) -> None:
        """Change owner and group."""
        ...

    def stat(self, path: PurePath, /) -> Status:
        """What is known about the file a path leads to."""
        ...

    def lstat(self, path: PurePath, /) -> Status:
        """As stat, of a symbolic link itself."""
        ...

    def readlink(self, path: PurePath, /) -> str:
        """Where a symbolic link leads."""
        ...

    def listdir(self, path: PurePath, /) -> list[str]:
        """Names in a directory, in no order."""
        ...

    def listxattr(self, path: PurePath, /) -> list[str]:
        """Names of extended attributes."""
        ...

    def getxattr(self, path: PurePath, attribute: str, /) -> bytes:
        """An extended attribute."""
        ...

    def setxattr(self, path: int, attribute: str, value: bytes, /) -> None:
        """Set an extended attribute of an open file."""
        ...

    def mkdir(self, path: PurePath, mode: int = 0o777, /) -> None:
        """Make a directory."""
        ...

    def rmdir(self, path: PurePath, /) -> None:
        """Remove an empty directory."""
        ...

    def link(self, src: PurePath, dst: PurePath, /) -> None:
        """Give a file one more name."""
        ...

    def rename(self, src: PurePath, dst: PurePath, /) -> None:
        """Give a file another name, in place of the file that has it."""
        ...

    def unlink(self, path: PurePath, /) -> None:
        """Take a name away."""
        ...

    def statvfs(self, path: PurePath, /) -> Space:
        """How full the filesystem is."""
        ...
