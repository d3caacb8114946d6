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
from nodeupgrade.node.host.files.atomic import fresh_beside, write_all
from nodeupgrade.node.host.files.files import LARGEST_KUBELET
from nodeupgrade.node.host.files.reading import chunks_of, closing, reopened
from nodeupgrade.node.host.files.resolving import resolve


class CopyError(Exception):
    """A file cannot be copied; the message says why."""


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
    meanwhile. A device or pipe is not opened.

    Raises:
        OSError: there is no such file, a link is on the way (ELOOP), or it is not a regular file (EINVAL).
    """
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with closing(directory), closing(_find(directory, path)) as found, reopened(found, path) as file:
        yield file


def copy_regular(root: Path, source: PurePosixPath, destination: Path, *, limit: int = LARGEST_KUBELET) -> Digest:
    """Copy a file that open_regular() opens, atomically and durably; return the SHA-256 of the copy.

    Raises:
        CopyError: the source is missing, a link, not a regular file or larger than ``limit`` bytes, be they holes; or
            the destination, which then is as it was, cannot be written.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(root, source) as file, fresh_beside(destination, mode=0o755) as fresh:
            for chunk in chunks_of(file, limit):
                digest.update(chunk)
                write_all(fresh, chunk)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CopyError(f"cannot copy {source} because it does not exist; check the path") from error
    except OSError as error:
        raise CopyError(f"cannot copy {source} to {destination}: {error.strerror or error}") from error
    return Digest(digest.hexdigest())


def _find(top: int, path: PurePosixPath) -> int:
    """Return a descriptor that only refers to what is at a path below an open directory."""
    parts = path.relative_to("/").parts
    if not parts or ".." in parts:
        raise OSError(errno.EINVAL, "it is not the path of a file", str(path))
    here = os.dup(top)
    for part in parts:
        with closing(here):
            here = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return here
