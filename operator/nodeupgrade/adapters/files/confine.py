"""Resolves paths of the node below the mount point of the node's root directory."""

import errno
import os
import stat
from collections import deque
from pathlib import Path, PurePosixPath

from nodeupgrade.ports.node.disk import Disk

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
    done: list[str] = []
    followed: list[Path] = [] if links is None else links
    while pending:
        part = pending.popleft()
        if part == "..":
            del done[-1:]
            continue
        here = root.joinpath(*done, part)
        if not (pending or follow_last) or not _is_link(here, disk):
            done.append(part)
            continue
        followed.append(here)
        if len(followed) > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = PurePosixPath(disk.readlink(here))
        if target.is_absolute():
            done.clear()
        pending.extendleft(reversed([p for p in target.parts if p != "/"]))
    return root.joinpath(*done)


def _is_link(path: Path, disk: Disk) -> bool:
    try:
        return stat.S_ISLNK(disk.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
