"""Look up mounts and their options in a node's mount table."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_ESCAPED = re.compile(r"\\([0-7]{3})")
_FIELDS = 6
"""Fields of every line before the optional ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount.

    Attributes:
        source: device of the filesystem, and what of it is mounted: ``("0:24", "/lib")``.
        options: those of the mount and of its filesystem.
        kind: type of the filesystem, for example ``ext4``.
    """

    point: PurePosixPath
    options: frozenset[str]
    kind: str
    source: tuple[str, PurePosixPath]


def is_read_only(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted read-only. See has_option for the arguments."""
    return has_option("ro", mountinfo, path)


def has_option(option: str, mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted with an option such as ``noexec``.

    Args:
        mountinfo: content of ``/proc/PID/mountinfo`` of a process in the host's mount namespace.
        path: absolute, without symbolic links.
    """
    mount = holder(mountinfo, path)
    return mount is not None and option in mount.options


def holder(mountinfo: str, path: PurePosixPath) -> Mount | None:
    """Return the mount that holds a path; ``None`` if there is none. See has_option for the arguments."""
    found: Mount | None = None
    for mount in mounts(mountinfo):
        # Of several mounts on one mount point the last one counts.
        if path.is_relative_to(mount.point) and (found is None or mount.point.is_relative_to(found.point)):
            found = mount
    return found


def is_mount_point(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether something is mounted at exactly this path. See has_option for the arguments."""
    return any(mount.point == path for mount in mounts(mountinfo))


def mounts(mountinfo: str) -> Iterator[Mount]:
    """Yield all mounts that can be parsed. See has_option for the argument."""
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        fields, of_filesystem = mount.split(" "), filesystem.split(" ")
        if len(fields) >= _FIELDS:
            yield Mount(
                point=_unescaped(fields[4]),
                options=frozenset({*fields[5].split(","), *of_filesystem[-1].split(",")}),
                kind=of_filesystem[0],
                source=(fields[2], _unescaped(fields[3])),
            )


def place_of(mountinfo: str, path: PurePosixPath) -> tuple[str, PurePosixPath] | None:
    """Return the filesystem that holds a path, and the path in it: the same in every mount namespace.

    ``None`` if no mount holds it. See has_option for the arguments.
    """
    mount = holder(mountinfo, path)
    if mount is None:
        return None
    device, root = mount.source
    return device, root / path.relative_to(mount.point)


def _unescaped(path: str) -> PurePosixPath:
    return PurePosixPath(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), path))
