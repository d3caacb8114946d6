"""Opens and copies files at untrusted paths: regular files only, below a directory, through no link."""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nodeupgrade.api.locations import KERNEL_DIRECTORIES
from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.files.atomic import CHUNK, fresh_beside, write_all
from nodeupgrade.node.host.files.resolving import resolve

LARGEST_PROGRAM = 1024 * 1024 * 1024
"""Bytes. Far above any kubelet (70 to 120 MB), far below what fills a node's disk."""


class CopyError(Exception):
    """A file cannot be copied; the message says why."""


class TooLargeError(CopyError):
    """A file is larger than any program; nothing of it was kept."""

    def __init__(self, path: PurePosixPath, limit: int) -> None:
        super().__init__(f"{path} is larger than {limit} bytes, so it is no kubelet; correct the path")


def real_path(root: Path, path: PurePosixPath) -> PurePosixPath:
    """Return a path below ``root`` with every symbolic link followed as if ``root`` was ``/``.

    Raises:
        OSError: it is not absolute, contains ``..``, or leads through too many links or a link of the kernel's, which
            leads elsewhere than it says.
    """
    if ".." in path.parts:
        raise OSError(errno.EINVAL, "it contains ..", str(path))
    followed: list[Path] = []
    try:
        found = resolve(root, path, follow_last=True, links=followed)
    except PermissionError as error:  # even root may not read each of the kernel's
        raise OSError(error.errno, f"it leads to {error.filename}: {error.strerror}", str(path)) from error
    if magic := next((link for link in followed if link.relative_to(root).parts[0] in KERNEL_DIRECTORIES), None):
        raise OSError(errno.ELOOP, f"it leads through {magic}", str(path))
    return PurePosixPath("/") / found.relative_to(root)


@contextmanager
def open_regular(root: Path, path: PurePosixPath) -> Iterator[int]:
    """Open a regular file below ``root`` for reading, and close it in the end.

    Nothing on the way may be a link, so the result of real_path() is what is opened, even if files are exchanged
    meanwhile. A device or pipe is not opened: opening a watchdog, for example, starts it.

    Raises:
        OSError: there is no such file, a link is on the way (ELOOP), or it is not a regular file (EINVAL).
    """
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with _closing(directory), _closing(_find(directory, path)) as found:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        # The checked file itself, which its name may no longer lead to.
        with _closing(os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            yield file


def copy_regular(root: Path, source: PurePosixPath, destination: Path, *, limit: int = LARGEST_PROGRAM) -> Digest:
    """Copy a file that open_regular() opens, atomically and durably; return the SHA-256 of the copy.

    Raises:
        TooLargeError: the source has more than ``limit`` bytes, be they holes; the destination is as it was.
        CopyError: the source is missing, a link or not a regular file, or the destination cannot be written.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(root, source) as file, fresh_beside(destination, mode=0o755) as fresh:
            for chunk in read_bounded(file, source, limit):
                digest.update(chunk)
                write_all(fresh, chunk)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CopyError(f"cannot copy {source} because it does not exist; check the path") from error
    except OSError as error:
        raise CopyError(f"cannot copy {source} to {destination}: {error.strerror or error}") from error
    return Digest(digest.hexdigest())


def read_bounded(file: int, path: PurePosixPath, limit: int = LARGEST_PROGRAM) -> Iterator[bytes]:
    """Yield the content of an open file in chunks, unless it is too large, or becomes so; ``path`` is for the message.

    Raises:
        TooLargeError: it has more than ``limit`` bytes. If it has them now, nothing is read.
        OSError: it cannot be read.
    """
    if os.fstat(file).st_size > limit:
        raise TooLargeError(path, limit)
    received = 0
    while chunk := os.read(file, CHUNK):
        received += len(chunk)
        if received > limit:
            raise TooLargeError(path, limit)
        yield chunk


def _find(top: int, path: PurePosixPath) -> int:
    """Return a descriptor that only refers to what is at a path below an open directory."""
    parts = path.relative_to("/").parts
    if not parts or ".." in parts:
        raise OSError(errno.EINVAL, "it is not the path of a file", str(path))
    here = os.dup(top)
    for part in parts:
        with _closing(here):
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return here


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
