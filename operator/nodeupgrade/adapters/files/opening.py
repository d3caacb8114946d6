"""Opens and copies files that somebody else names or writes: regular files only, below a directory, through no link."""

import errno
import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.atomic import CHUNK, fresh_beside, write_all
from nodeupgrade.api.node_files import KERNEL_DIRECTORIES
from nodeupgrade.api.values import Digest
from nodeupgrade.ports.artifacts import CopyError
from nodeupgrade.ports.disk import Disk


def real(root: Path, path: PurePosixPath) -> PurePosixPath:
    """Return a path below ``root`` with every symbolic link followed as if ``root`` was ``/``.

    Raises:
        OSError: it is not absolute, has ``..`` in it, leads through too many links, or through a link of the kernel's,
            which leads elsewhere than it says.
    """
    if ".." in path.parts:
        raise OSError(errno.EINVAL, "there is .. in it", str(path))
    followed: list[Path] = []
    try:
        found = resolve(root, path, follow_last=True, links=followed)
    except PermissionError as error:  # even root may not read each of the kernel's
        raise OSError(error.errno, f"it leads to {error.filename}: {error.strerror}", str(path)) from error
    if magic := next((link for link in followed if link.relative_to(root).parts[0] in KERNEL_DIRECTORIES), None):
        raise OSError(errno.ELOOP, f"it leads through {magic}", str(path))
    return PurePosixPath("/") / found.relative_to(root)


@contextmanager
def opened(root: Path, path: PurePosixPath) -> Iterator[int]:
    """Open a regular file below ``root`` for reading, and close it in the end.

    Nothing on the way may be a link, so what ``real`` has returned stays what is opened, whatever is exchanged
    meanwhile. A device or pipe is looked at but not opened: to open a watchdog, say, starts it.

    Raises:
        OSError: there is no such file, a link is on the way (ELOOP), or it is not a regular file (EINVAL).
    """
    directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    with _closing(directory), _closing(_find(directory, path)) as found:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        # The very file that was looked at, which its name may not lead to any more.
        with _closing(os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            yield file


def copy(root: Path, source: PurePosixPath, destination: Path) -> Digest:
    """Copy a regular file below ``root``, opened like that, atomically and durably; return the SHA-256 of the copy.

    Raises:
        CopyError: the source is missing, a link or not a regular file, or the destination cannot be written.
    """
    digest = hashlib.sha256()
    try:
        with opened(root, source) as file, fresh_beside(destination, mode=0o755) as fresh:
            while chunk := os.read(file, CHUNK):
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


# Resolves paths of the node below the mount point of the node's root directory.

MAX_LINKS = 40  # as in the kernel


def resolve(
    root: Path, path: PurePosixPath, *, follow_last: bool, disk: Disk = os, links: list[Path] | None = None
) -> Path:
    """Resolve a path as the node would, and never leave ``root``.

    In a container that mounts the host, an absolute symbolic link would otherwise lead into the container. ``..``
    above the root stays at the root, as in the kernel. Parts that do not exist are kept as they are.

    Args:
        root: mount point of the node's root directory.
        path: absolute path on the node.
        follow_last: whether to follow a symbolic link as the last part too.
        links: every symbolic link that is followed is appended to this list.

    Raises:
        OSError: EINVAL if the path is not absolute, ELOOP after 40 symbolic links.
    """
    if not path.is_absolute():
        raise OSError(errno.EINVAL, "not an absolute path", str(path))
    pending = deque(path.parts[1:])
    walked, exists = [root], True
    followed: list[Path] = [] if links is None else links
    while pending:
        part = pending.popleft()
        if part == "..":
            del walked[max(1, len(walked) - 1) :]
            exists = True
            continue
        here = walked[-1] / part
        kind = _kind(here, disk) if exists and (pending or follow_last) else None
        exists = exists and kind is not None
        if kind is None or not stat.S_ISLNK(kind):
            walked.append(here)
            continue
        followed.append(here)
        if len(followed) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = PurePosixPath(disk.readlink(here))
        if target.is_absolute():
            del walked[1:]
        pending.extendleft(reversed([p for p in target.parts if p != "/"]))
    return walked[-1]


def _kind(path: Path, disk: Disk) -> int | None:
    """Return the mode of a path itself; ``None`` if it does not exist, and so nothing does below it."""
    try:
        return disk.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
