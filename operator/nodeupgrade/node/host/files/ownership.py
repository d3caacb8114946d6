"""Who may write a file of the node, or exchange it by something on the way to it."""

import os
import stat
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.resolving import resolve


def written_by_others(root: Path, path: PurePosixPath) -> PurePosixPath | None:
    """Return what others than root may write: a file, a link that leads to it, or a directory on the way to either.

    Args:
        root: mount point of the node's root directory.
        path: absolute path on the node.

    Returns:
        ``None`` if root alone may write any of it.

    Raises:
        OSError: that is unknown.
    """
    links: list[Path] = []
    ends = (resolve(root, path, follow_last=True, links=links), *links)
    ways = (place for end in ends for place in (end, *end.parents) if place.is_relative_to(root))
    found = next((place for place in dict.fromkeys(ways) if _others_write(place.lstat())), None)
    return None if found is None else PurePosixPath("/") / found.relative_to(root)


def _others_write(status: os.stat_result) -> bool:
    """Report whether others than root may write. A link's permissions mean nothing."""
    if status.st_uid != 0:
        return True
    if stat.S_ISLNK(status.st_mode):
        return False
    return bool(status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != 0))
