"""The system calls that read and change files.

The module ``os`` is the real implementation. Everything a run stores on a node's disk goes through these calls only, so
that tests can substitute a disk that loses unsynchronised data on power failure.
"""

from pathlib import PurePath
from typing import Protocol


class Status(Protocol):
    """File status, as in ``os.stat_result``."""

    @property
    def st_mode(self) -> int:
        """File type and permissions."""
        ...

    @property
    def st_dev(self) -> int:
        """Device of the filesystem."""
        ...

    @property
    def st_ino(self) -> int:
        """Inode number."""
        ...

    @property
    def st_nlink(self) -> int:
        """Number of names."""
        ...

    @property
    def st_size(self) -> int:
        """Size in bytes."""
        ...

    @property
    def st_uid(self) -> int:
        """User ID of the owner."""
        ...

    @property
    def st_gid(self) -> int:
        """Group ID."""
        ...

    @property
    def st_mtime_ns(self) -> int:
        """Last change of the content, in nanoseconds since the epoch."""
        ...

    @property
    def st_ctime_ns(self) -> int:
        """Last change of content, names or attributes, in nanoseconds since the epoch."""
        ...


class Space(Protocol):
    """Filesystem usage, as in ``os.statvfs_result``."""

    @property
    def f_bavail(self) -> int:
        """Free blocks for unprivileged users."""
        ...

    @property
    def f_frsize(self) -> int:
        """Block size in bytes."""
        ...

    @property
    def f_blocks(self) -> int:
        """All blocks."""
        ...

    @property
    def f_files(self) -> int:
        """All inodes; 0 if the filesystem makes them as needed."""
        ...

    @property
    def f_ffree(self) -> int:
        """Free inodes."""
        ...


class Disk(Protocol):
    """System calls by their own names. Every method raises OSError with Linux's errno."""

    def open(self, path: PurePath, flags: int, mode: int = 0o777, /) -> int:
        """Open a file or directory."""
        ...

    def close(self, fd: int, /) -> None:
        """Close a file descriptor."""
        ...

    def read(self, fd: int, length: int, /) -> bytes:
        """Read at most ``length`` bytes; empty at the end."""
        ...

    def write(self, fd: int, data: bytes | memoryview, /) -> int:
        """Write some or all bytes; return how many."""
        ...

    def lseek(self, fd: int, position: int, whence: int, /) -> int:
        """Move the file position."""
        ...

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Truncate, or extend with zeros."""
        ...

    def posix_fallocate(self, fd: int, offset: int, length: int, /) -> None:
        """Reserve space."""
        ...

    def fsync(self, fd: int, /) -> None:
        """Wait until a file's content and attributes, or a directory's entries, are on stable storage."""
        ...

    def fdatasync(self, fd: int, /) -> None:
        """Wait until a file's content is on stable storage."""
        ...

    def fstat(self, fd: int, /) -> Status:
        """Return the status of an open file."""
        ...

    def fchmod(self, fd: int, mode: int, /) -> None:
        """Change permissions."""
        ...

    def fchown(self, fd: int, uid: int, gid: int, /) -> None:
        """Change owner and group."""
        ...

    def stat(self, path: PurePath, /) -> Status:
        """Return the status of a file, following symbolic links."""
        ...

    def lstat(self, path: PurePath, /) -> Status:
        """Return the status of a file, or of the symbolic link itself."""
        ...

    def readlink(self, path: PurePath, /) -> str:
        """Return the target of a symbolic link."""
        ...

    def listdir(self, path: PurePath, /) -> list[str]:
        """List a directory in no particular order."""
        ...

    def listxattr(self, path: PurePath, /) -> list[str]:
        """List the names of a file's extended attributes."""
        ...

    def getxattr(self, path: PurePath, attribute: str, /) -> bytes:
        """Return an extended attribute."""
        ...

    def setxattr(self, path: int, attribute: str, value: bytes, /) -> None:
        """Set an extended attribute of an open file."""
        ...

    def mkdir(self, path: PurePath, mode: int = 0o777, /) -> None:
        """Create a directory."""
        ...

    def rmdir(self, path: PurePath, /) -> None:
        """Remove an empty directory."""
        ...

    def link(self, src: PurePath, dst: PurePath, /) -> None:
        """Create a hard link."""
        ...

    def rename(self, src: PurePath, dst: PurePath, /) -> None:
        """Rename a file, replacing the target if it exists."""
        ...

    def unlink(self, path: PurePath, /) -> None:
        """Remove a name of a file."""
        ...

    def statvfs(self, path: PurePath, /) -> Space:
        """Return the usage of the filesystem that holds ``path``."""
        ...
