"""The ports to the files of one node. All paths are absolute paths on the node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import Digest

LARGEST_READ = 64 * 1024**2
"""Bytes. Far above every file that is read as a whole: the largest are dpkg's, and stored metadata of containers."""
LARGEST_KUBELET = 256 * 1024**2
"""Bytes. Above any kubelet (70 to 120 MB); no more is ever fetched, or asked for as free space beforehand."""
LARGEST_MOUNT_TABLE = 1024**2
"""Bytes. Far above the mount table of a container, which its processes may blow up by mounts of their own: 68 MiB in a
second, without any privilege (in a user namespace), for which the kernel takes three seconds at each reading.
"""


MOST_ENTRIES = 10_000
"""Of a directory where pods write, of which a starting kubelet looks at every one."""
MOST_LINKS = 100_000
"""That are removed at once, which takes a second or two; whoever makes more of them is not done any sooner."""


class EntryKind(StrEnum):
    """The type of a FileEntry."""

    FILE = "a regular file"
    DIRECTORY = "a directory"
    LINK = "a symbolic link"
    SOCKET = "a socket"
    OTHER = "not a regular file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplaced:
    """What keeps a program from writing a file."""

    path: PurePosixPath  # the file's, or that of a directory on the way to it
    what: str  # such as ``is a symbolic link``


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A directory entry; a symbolic link is not followed."""

    kind: EntryKind
    mode: int  # its permissions
    links: int  # how many names it has
    real: PurePosixPath  # the path without symbolic links in its directories


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """How full a filesystem is."""

    size: int
    free: int  # bytes that an unprivileged user can still write
    inodes: int  # 0 if the filesystem makes them as needed
    free_inodes: int


class FilesView(Protocol):
    """Reads files. Every method raises StepFailed (chained from the OSError) on failure."""

    def read(self, path: PurePosixPath, *, limit: int = LARGEST_READ) -> bytes | None:
        """Return the content, of at most so many bytes; ``None`` if there is no such file."""

    def read_state(self, path: PurePosixPath) -> bytes | None:
        """Return the content of a file in a directory that others may write; ``None`` if there is no such file.

        Fails unless it is a regular file of root's with one name and at most LARGEST_STATE bytes; a link is not
        followed.
        """

    def digest(self, path: PurePosixPath) -> Digest | None:
        """Return the SHA-256 of the content; ``None`` if there is no such file."""

    def size(self, path: PurePosixPath) -> int | None:
        """Return the size in bytes; ``None`` if there is no such file."""

    def stamp(self, path: PurePosixPath) -> str | None:
        """Return a value that changes when the file is replaced or written; ``None`` if there is no such file.

        Does not read the file. Hard links do not affect it.
        """

    def list(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """List the regular files in a directory, sorted; empty if there is no such directory."""

    def walk(self, directory: PurePosixPath, *, deep: bool = True) -> tuple[PurePosixPath, ...]:
        """List the regular files and symbolic links in a directory and, if ``deep``, below it, sorted by name."""

    def real(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path of a regular file without symbolic links; ``None`` if the path leads to none."""

    def follow(self, path: PurePosixPath) -> PurePosixPath:
        """Return a path without symbolic links, whatever is there, and also if nothing is."""

    def link(self, path: PurePosixPath) -> str | None:
        """Return what a symbolic link says; ``None`` if there is none."""

    def changed(self, path: PurePosixPath) -> float | None:
        """Return when a path last changed in any way, in seconds since 1970; ``None`` if it does not exist.

        Changes along its path count too, such as a symbolic link that now points elsewhere.
        """

    def immutable(self, path: PurePosixPath) -> bool:
        """Report whether a file or directory is immutable, even for root; False if it does not exist."""

    def socket(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path of a socket without symbolic links; ``None`` if the path does not lead to a socket."""

    def sockets_in(self, directory: PurePosixPath) -> tuple[PurePosixPath, ...]:
        """List the sockets in a directory, sorted; empty if there is no such directory, or it is crowded."""

    def is_crowded(self, directory: PurePosixPath) -> bool:
        """Report whether a directory has more entries than can be looked at while a kubelet is down."""

    def misplaced(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> Misplaced | None:
        """Return what keeps a program from appending to a file, or from making a directory; ``None`` if nothing does.

        What is missing can be made. A file is opened for that, and nothing is waited for: neither the reader of a FIFO
        nor the holder of a lease. No symbolic link is followed below ``below``, whoever exchanges a directory
        meanwhile: its target may be on a server that does not answer.
        """

    def lockers(
        self, paths: Iterable[PurePosixPath], *, writers: bool = True
    ) -> Mapping[PurePosixPath, tuple[int, ...]]:
        """Return the processes that have a lock of a file, or wait for one; files of which there are none are left out.

        The number of one that is not known is -1. What does not exist has none.

        Args:
            paths: of the files.
            writers: whether also of files of which a process has a lock that nobody gets who may only read them.
        """

    def is_empty(self, directory: PurePosixPath) -> bool:
        """Report whether nothing at all is in a directory; true if there is no such directory."""

    def usage(self, path: PurePosixPath) -> DiskUsage:
        """Return how full the filesystem is that holds ``path``."""

    def entry(self, path: PurePosixPath) -> FileEntry | None:
        """Return the entry at a path; ``None`` if there is none."""

    def executable(self, path: PurePosixPath) -> bool:
        """Report whether a path leads to a regular file that its owner may execute."""


class Files(FilesView, Protocol):
    """Crash-safe file operations: after a power failure, each has either happened completely or not at all.

    Every method raises StepFailed (chained from the OSError) on failure.
    """

    def write(self, path: PurePosixPath, data: bytes, *, mode: int = 0o600) -> None:
        """Replace a file atomically: temporary file in the same directory, fsync, rename, fsync of the directory.

        An existing file keeps its mode, owner and extended attributes. Missing parent directories are created.
        """

    def write_state(self, path: PurePosixPath, data: bytes | None, place: PurePosixPath) -> None:
        """Replace whatever is at ``path``, in a directory that others may write, by a file that only root may read.

        It is made in ``place``, a directory that nobody else may write, unless that is on another filesystem. A link is
        not followed, but replaced, like anything but a directory. ``None`` removes what is there.
        """

    def write_kernel(self, path: PurePosixPath, data: bytes) -> None:
        """Write to a file that the kernel provides, such as a limit: in place, and none is created."""

    def copy(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Copy content, mode, owner and extended attributes; the target appears atomically."""

    def adopt(self, pattern: PurePosixPath, target: PurePosixPath, *, mode: int | None = None) -> None:
        """Give ``target`` the mode, owner and extended attributes of ``pattern``; ``mode`` overrides the first."""

    def replace(self, source: PurePosixPath, target: PurePosixPath) -> None:
        """Replace ``target`` with ``source`` by link and rename; ``source`` stays. Needs the same filesystem."""

    def remove(self, path: PurePosixPath) -> None:
        """Remove a file, if it exists."""

    def clear_way(self, path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> PurePosixPath | None:
        """Rename what is misplaced() to a hidden name beside it; return that, ``None`` if nothing was moved.

        Other than the rest, it may be undone by a power failure.
        """

    def set_aside(self, path: PurePosixPath) -> PurePosixPath | None:
        """Rename what lies at a path and is no regular file, such as a directory or a link, to a hidden name beside it.

        Returns:
            The new path; ``None`` if nothing was moved.
        """

    def remove_links(self, directory: PurePosixPath) -> int:
        """Remove the symbolic links in a directory, without following them; return how many were removed.

        Also where it is crowded: a single one may keep a kubelet waiting without end.
        """

    def tidy(self, path: PurePosixPath) -> None:
        """Remove temporary files that an interrupted change of ``path`` left; the file itself is not touched."""
