"""Resolves paths of the node below the mount point of the node's root directory."""

import errno
import os
import stat
from collections import deque
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.system_calls import Disk

MAX_LINKS = 40  # as in the kernel


def resolve(
    root: Path, path: PurePosixPath, *, follow_last: bool, disk: Disk = os, links: list[Path] | None = None
) -> Path:
    """Resolve a path as the node would, and never leave ``root``.

    Otherwise an absolute symbolic link of the host would lead into the agent's container. ``..`` above the root stays
    at the root, as in the kernel. Missing parts are kept.

    Args:
        root: mount point of the node's root directory.
        path: absolute path on the node.
        follow_last: whether to follow a symbolic link as the last part too.
        links: receives every symbolic link that is followed.

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
