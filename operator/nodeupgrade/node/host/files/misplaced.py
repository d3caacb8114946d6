"""What keeps a program from appending to a file, or from making a directory, where others may write.

It is looked at, and moved, through open directories: whoever exchanges one of them meanwhile leads nobody elsewhere.
"""

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.files import EntryKind, Misplaced
from nodeupgrade.node.host.files.system_calls import Disk, kind_of

# From linux/fs.h; the request numbers are the same on all 64-bit architectures.
FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
PROJINHERIT = 0x200
NO_ATTRIBUTE = "user.nodeupgrade.none"
"""An extended attribute that no file has: the attempt to remove it tells whether anything could be changed."""

_APPENDING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_UNWRITABLE = frozenset({errno.ETXTBSY, errno.EAGAIN, errno.EPERM, errno.ENXIO, errno.EISDIR, errno.ELOOP})
"""What open() says of a program that runs, of a file with a lease or one that never changes, and of what is no file."""


@contextlib.contextmanager
def look(
    path: PurePosixPath, below: PurePosixPath, top: Path, wanted: EntryKind, *, disk: Disk
) -> Iterator[tuple[Path, Misplaced | None]]:
    """Yield what is misplaced, and the directory where it is, which stays the same whatever is exchanged.

    Args:
        path: the path on the node that is to be ``wanted``, or missing.
        below: the directory on the node from which on no symbolic link is followed.
        top: that directory as this process sees it.
        wanted: a file or a directory.
        disk: receives the system calls.
    """
    at, seen, directory = below, top, top
    found: Misplaced | None = None
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):  # what is missing can be made
            for name in path.relative_to(below).parts:
                descriptor = disk.open(seen, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                stack.callback(disk.close, descriptor)
                opened = Path(f"/proc/self/fd/{descriptor}")
                if at != below and _is_read_only(opened, disk):
                    found = Misplaced(path=at, what=f"cannot be written: {os.strerror(errno.EROFS)}")
                    break
                directory, at, seen = opened, at / name, opened / name
                if (found := _judge(directory, at, wanted if at == path else EntryKind.DIRECTORY, disk)) is not None:
                    break
        yield directory, found


def rename_within(target: Path, aside: Path, disk: Disk) -> None:
    """Rename in a directory, whatever its owner has done to it; what cannot be renamed, but is empty, is removed.

    Raises:
        OSError: neither is possible.
    """
    try:
        disk.rename(target, aside)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:  # the new name is free: in a snapshot, what was a subvolume; it is empty
            disk.rmdir(target)
            return
        if error.errno != errno.EXDEV:
            raise
        with _handing_down_no_project(target.parent):
            disk.rename(target, aside)


@contextlib.contextmanager
def _handing_down_no_project(directory: Path) -> Iterator[None]:
    """Keep a directory for a moment from giving its project to what comes into it, as XFS has it without any quota.

    Nothing of another project can be renamed in it until then. Whoever may write in it as root may have done that.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        before = fcntl.ioctl(descriptor, FS_IOC_FSGETXATTR, bytes(28))
        flags = int.from_bytes(before[:4], sys.byteorder) & ~PROJINHERIT
        fcntl.ioctl(descriptor, FS_IOC_FSSETXATTR, flags.to_bytes(4, sys.byteorder) + before[4:])
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.ioctl(descriptor, FS_IOC_FSSETXATTR, before)
    finally:
        os.close(descriptor)


def _is_read_only(directory: Path, disk: Disk) -> bool:
    """Report whether a directory is read-only although its mount is not, as a subvolume of btrfs may be."""
    try:
        disk.removexattr(directory, NO_ATTRIBUTE)
    except OSError as error:
        # A precheck sees the whole host mounted read-only.
        return error.errno == errno.EROFS and not disk.statvfs(directory).f_flag & os.ST_RDONLY
    return False


def _judge(directory: Path, path: PurePosixPath, wanted: EntryKind, disk: Disk) -> Misplaced | None:
    """Judge what is in an open directory, whose path on the node is ``path``."""
    kind = kind_of(disk.lstat(directory / path.name))
    if kind is not wanted:
        return Misplaced(path=path, what=f"is {kind}")
    why = _unwritable(directory, directory / path.name, disk) if kind is EntryKind.FILE else ""
    return Misplaced(path=path, what=f"cannot be written: {why}") if why else None


def _unwritable(directory: Path, file: Path, disk: Disk) -> str:
    try:
        disk.close(disk.open(file, _APPENDING, 0o640))
    except OSError as error:
        # Of files of others in a sticky directory, who may create one may not open it (fs.protected_regular).
        kept = error.errno == errno.EACCES and disk.stat(directory).st_mode & stat.S_ISVTX
        if error.errno in _UNWRITABLE or kept:
            return os.strerror(error.errno or 0)
        if error.errno != errno.EROFS:  # a precheck sees the whole host read-only
            raise
    return ""
