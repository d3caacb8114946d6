"""Reads files, whoever may have put something else in their place: regular files only, and never more than a limit.

Nothing else in ``node`` opens a file of the node for reading (tests/architecture/test_reading.py).
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from nodeupgrade.api.values import Digest
from nodeupgrade.node.host.files.files import LARGEST_READ
from nodeupgrade.node.host.files.system_calls import Disk

CHUNK = 1024 * 1024
LARGEST_STATE = 16 * CHUNK
"""Bytes. Far above any state file of a kubelet."""
LARGEST_PROGRAM = 1024 * CHUNK
"""Bytes. Far above any program of a node that is read."""


def read_file(path: Path, *, limit: int = LARGEST_READ, follow: bool = False, disk: Disk = os) -> bytes:
    """Return the content of a regular file; ``follow`` also reads what a link at the end of the path leads to.

    Raises:
        OSError: there is none, something else lies there (EINVAL), or it is larger than ``limit`` bytes (EFBIG).
    """
    with opened(path, follow=follow, disk=disk) as file:
        return b"".join(chunks_of(file, limit, disk=disk))


def digest_of(path: Path, *, follow: bool = False, disk: Disk = os) -> Digest:
    """Return the SHA-256 of the content of a regular file of at most LARGEST_PROGRAM bytes; otherwise as read_file().

    Raises:
        OSError: as read_file().
    """
    digest = hashlib.sha256()
    with opened(path, follow=follow, disk=disk) as file:
        for chunk in chunks_of(file, LARGEST_PROGRAM, disk=disk):
            digest.update(chunk)
    return Digest(digest.hexdigest())


@contextmanager
def opened(path: Path, *, follow: bool = False, disk: Disk = os) -> Iterator[int]:
    """Open a regular file for reading, and close it in the end.

    Anything else is looked at, not opened: opening a watchdog starts it, and opening a pipe waits for a writer.

    Raises:
        OSError: there is none, or it is not a regular file (EINVAL).
    """
    found = disk.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    with closing(found, disk), reopened(found, path, disk=disk) as file:
        yield file


@contextmanager
def reopened(found: int, path: PurePath, *, disk: Disk = os) -> Iterator[int]:
    """Open what a descriptor of O_PATH refers to for reading, wherever its name leads by now; see opened()."""
    require_regular(disk.fstat(found).st_mode, path)
    again = disk.open(Path(f"/proc/self/fd/{found}"), os.O_RDONLY | os.O_CLOEXEC)
    with closing(again, disk) as file:
        yield file


def chunks_of(file: int, limit: int, *, disk: Disk = os) -> Iterator[bytes]:
    """Yield the content of an open file in chunks.

    Raises:
        OSError: it has, or comes to have, more than ``limit`` bytes (EFBIG). If it has them now, nothing is read.
    """
    left = limit - disk.fstat(file).st_size
    if left >= 0:
        left = limit
        while chunk := disk.read(file, CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    if left < 0:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes")


def require_regular(mode: int, path: PurePath) -> None:
    """Require the mode of a regular file.

    Raises:
        OSError: it is that of something else (EINVAL).
    """
    if stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "it is a symbolic link", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextmanager
def closing(descriptor: int, disk: Disk = os) -> Iterator[int]:
    """Close a descriptor in the end."""
    try:
        yield descriptor
    finally:
        disk.close(descriptor)
