"""The pieces of a crash-safe change: a file that appears whole, with the right attributes, and for good."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LEFTOVER = ".nodeupgrade-new"
# Signatures over content or inode: they would be wrong on another file.
NOT_CARRIED = frozenset({"security.ima", "security.evm"})


@contextlib.contextmanager
def fresh_beside(target: Path, *, mode: int) -> Iterator[IO[bytes]]:
    """Give a new file that takes the place of ``target`` when the block ends, or vanishes when it raises.

    Content is on disk before the rename, the rename before this returns. The temporary name is always the same,
    so that what a crash left is overwritten by the next attempt.
    """
    fresh = target.with_name(f".{target.name}{LEFTOVER}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)


def carry_attributes(source: Path, descriptor: int) -> None:
    """Give an open file the owner, mode and extended attributes of another file."""
    status = source.stat()
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    # A change of owner clears set-id bits and file capabilities, so these come after it.
    os.fchmod(descriptor, status.st_mode & 0o7777)
    for name in _attributes(source):
        os.setxattr(descriptor, name, os.getxattr(source, name))


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _attributes(path: Path) -> list[str]:
    try:
        return [name for name in os.listxattr(path) if name not in NOT_CARRIED]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise


def replace_by_link(source: Path, target: Path) -> None:
    """Make ``target`` another name of the file ``source``, at once and for good."""
    scratch = target.with_name(f".{target.name}{LEFTOVER}")
    scratch.unlink(missing_ok=True)
    scratch.hardlink_to(source)
    scratch.replace(target)
    sync_directory(target.parent)
