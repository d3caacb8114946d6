"""Building blocks of crash-safe changes: files appear complete, with the right attributes, and durably."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.names_beside import UNFINISHED, beside

ACCESS_CONTROL_LIST = "system.posix_acl_access"
# Signatures of content or inode, which would be invalid on another file.
NOT_CARRIED = frozenset({"security.ima", "security.evm"})


@contextmanager
def fresh_beside(target: Path, *, mode: int, place: Path | None = None, disk: Disk = os) -> Iterator[int]:
    """Open a new file that replaces ``target`` when the block ends, or is removed when the block raises.

    The content is on disk before the rename, and the rename before this returns. The temporary name is always the
    same, so the next attempt replaces what a crash left behind. It is in ``place``, a directory of the same filesystem,
    or else in the target's.
    """
    directory = place or target.parent
    fresh = remove_leftover(directory / target.name, disk=disk)
    descriptor = disk.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            disk.fchmod(descriptor, mode)
            yield descriptor
            disk.fsync(descriptor)
        finally:
            disk.close(descriptor)
        disk.rename(fresh, target)
    except BaseException:
        _unlink(fresh, disk)
        raise
    for changed in dict.fromkeys((directory, target.parent)):
        sync_directory(changed, disk)


def replace_by_link(source: Path, target: Path, *, disk: Disk = os) -> None:
    """Make ``target`` another name of the file ``source``, atomically and durably."""
    scratch = remove_leftover(target, disk=disk)
    disk.link(source, scratch)
    disk.rename(scratch, target)
    sync_directory(target.parent, disk)


def remove_leftover(target: Path, *, disk: Disk = os) -> Path:
    """Remove the temporary file that an interrupted change of ``target`` left, and return its name."""
    scratch = beside(target, UNFINISHED)
    _unlink(scratch, disk)
    return scratch


def write_all(descriptor: int, data: bytes, *, disk: Disk = os) -> None:
    """Write all bytes, with as many calls as it takes."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[disk.write(descriptor, remaining) :]


def carry_attributes(source: Path, descriptor: int, *, disk: Disk = os) -> None:
    """Give an open file the owner, mode and extended attributes of another file.

    An access control list that it got from its directory goes; it would let in whom the mode's group bits allow.
    """
    status = disk.stat(source)
    current = disk.fstat(descriptor)
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid):
        disk.fchown(descriptor, status.st_uid, status.st_gid)
    try:
        disk.removexattr(descriptor, ACCESS_CONTROL_LIST)
    except OSError as error:
        if error.errno not in {errno.ENODATA, errno.ENOTSUP}:
            raise
    # A change of owner clears set-id bits and file capabilities, so these are set after it.
    disk.fchmod(descriptor, status.st_mode & 0o7777)
    for name in carried_attributes(source, disk.listxattr):
        disk.setxattr(descriptor, name, disk.getxattr(source, name))


def make_directory(directory: Path, *, mode: int = 0o755, disk: Disk = os) -> None:
    """Make a directory and its missing parents, durably."""
    missing = [made for made in (directory, *directory.parents) if not exists(made, disk)]
    for made in reversed(missing):
        with suppress(FileExistsError):
            disk.mkdir(made, mode)
        sync_directory(made.parent, disk)


def exists(path: Path, disk: Disk = os) -> bool:
    """Report whether a path exists; symbolic links are followed."""
    try:
        disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_regular(path: Path, disk: Disk = os) -> bool:
    """Report whether a path is a regular file; a symbolic link is not."""
    try:
        return stat.S_ISREG(disk.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def sync_directory(directory: Path, disk: Disk = os) -> None:
    """Wait until the entries of a directory are on disk."""
    _sync(directory, os.O_RDONLY | os.O_DIRECTORY, disk)


def sync_file(path: Path, disk: Disk = os) -> None:
    """Wait until the content of a file is on disk."""
    _sync(path, os.O_RDONLY, disk)


def _sync(path: Path, flags: int, disk: Disk) -> None:
    descriptor = disk.open(path, flags)
    try:
        disk.fsync(descriptor)
    finally:
        disk.close(descriptor)


def _unlink(path: Path, disk: Disk) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        disk.unlink(path)


def carried_attributes(path: Path, listxattr: Callable[[Path], list[str]]) -> list[str]:
    """Return the names of the extended attributes that can be copied to another file."""
    try:
        return [name for name in listxattr(path) if name not in NOT_CARRIED]
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return []
        raise
