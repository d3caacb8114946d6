"""Look up mount options of a path in a node's mount table."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")
_FIELDS = 6
"""Fields of every line before the optional ones."""


def is_read_only(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted read-only. See has_option for the arguments."""
    return has_option("ro", mountinfo, path)


def has_option(option: str, mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted with an option such as ``noexec``.

    Args:
        mountinfo: content of ``/proc/PID/mountinfo`` of a process in the host's mount namespace.
        path: absolute, without symbolic links.
    """
    nearest, is_set = PurePosixPath("/"), False
    for point, options in _mounts(mountinfo):
        # Of several mounts on one mount point the last one counts.
        if path.is_relative_to(point) and point.is_relative_to(nearest):
            nearest, is_set = point, option in options
    return is_set


def is_mount_point(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether something is mounted at exactly this path. See has_option for the arguments."""
    return any(point == path for point, _ in _mounts(mountinfo))


def _mounts(mountinfo: str) -> Iterator[tuple[PurePosixPath, set[str]]]:
    """Yield the mount points, and the options of mount and filesystem."""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields, options = mount.split(" "), source.split(" ")[-1].split(",")
        if len(fields) >= _FIELDS:
            point = PurePosixPath(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]))
            yield point, {*fields[5].split(","), *options}
