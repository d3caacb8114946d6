"""What a node's mount table says about a path."""

import re
from pathlib import PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_read_only(mountinfo: str, path: PurePosixPath) -> bool:
    """Whether the filesystem that holds a path is mounted read-only; for the arguments see has_option."""
    return has_option("ro", mountinfo, path)


def has_option(option: str, mountinfo: str, path: PurePosixPath) -> bool:
    """Whether the filesystem that holds a path is mounted with an option such as ``noexec``.

    Args:
        mountinfo: content of ``/proc/PID/mountinfo`` of a process that sees the node as the node does.
        path: without symbolic links.
    """
    nearest, found = PurePosixPath("/"), False
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        fields, options = mount.split(" "), source.split(" ")[-1].split(",")
        if len(fields) < 6:
            continue
        point = PurePosixPath(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields[4]))
        # Of several mounts in one place the last one counts.
        if path.is_relative_to(point) and point.is_relative_to(nearest):
            nearest, found = point, option in {*fields[5].split(","), *options}
    return found
