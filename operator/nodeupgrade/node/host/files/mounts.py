"""Looks up mounts and their options in a node's mount table."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.limits import shorten
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.text import lines

MOUNTS = PurePosixPath("/proc/1/mountinfo")
_ESCAPES = {"040": " ", "011": "\t", "012": "\n", "134": "\\", "043": "#"}
REMOTE = frozenset({"9p", "afs", "autofs", "beegfs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3"})
"""Types of filesystems of other machines, and of what would mount something."""
_ESCAPED = re.compile(rf"\\({'|'.join(_ESCAPES)})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mount."""

    number: str  # by which other mounts name it
    parent: str  # number of the mount on which it is mounted
    point: PurePosixPath
    options: frozenset[str]  # those of the mount and of its filesystem
    kind: str  # type of the filesystem, for example ``ext4``
    source: tuple[str, PurePosixPath]  # device and mounted directory of the filesystem: ``("0:24", "/lib")``

    @property
    def remote(self) -> bool:
        """Report whether the filesystem is another machine's, and so may be that of several nodes."""
        return self.kind.removeprefix("fuse.") in REMOTE

    @property
    def upper(self) -> PurePosixPath | None:
        """Return the directory that an overlay writes to; ``None`` if it is not a writable overlay."""
        named = (option.removeprefix("upperdir=") for option in self.options if option.startswith("upperdir="))
        return next(map(_unescaped, named), None)


def mount_table(files: FilesView) -> str:
    """Return the host's mount table, which may differ from this process's."""
    return (files.read(MOUNTS) or b"").decode(errors="surrogateescape")


def is_read_only(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted read-only."""
    return has_option("ro", mountinfo, path)


def has_option(option: str, mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether the filesystem of a path is mounted with an option such as ``noexec``.

    Args:
        mountinfo: content of ``/proc/PID/mountinfo`` of a process in the host's mount namespace.
        path: absolute, without symbolic links.
    """
    mount = mount_holding(mountinfo, path)
    return mount is not None and option in mount.options


def mount_holding(mountinfo: str, path: PurePosixPath) -> Mount | None:
    """Return the mount that holds a path; ``None`` if there is none.

    The search starts at the root, as in the kernel: a mount whose mount point is hidden by another one does not count,
    whatever its place in the table. Mounts that were propagated to both are such.
    """
    left = [mount for mount in mounts(mountinfo) if path.is_relative_to(mount.point)]
    numbers = {mount.number for mount in left}
    reached = [mount for mount in left if mount.parent not in numbers - {mount.number}]
    found: Mount | None = None
    while reached:
        # Of several on one mount point the last one counts.
        found = min(reversed(reached), key=lambda mount: len(mount.point.parts))
        left.remove(found)
        reached = [mount for mount in left if mount.parent == found.number]
    return found


def is_mount_point(mountinfo: str, path: PurePosixPath) -> bool:
    """Report whether something is mounted at exactly this path."""
    mount = mount_holding(mountinfo, path)
    return mount is not None and mount.point == path


def mounts(mountinfo: str) -> Iterator[Mount]:
    """Yield all mounts.

    The kernel writes names as they are, except for blanks, tabs, line feeds and backslashes.

    Raises:
        StepFailed: a line cannot be read.
    """
    for line in lines(mountinfo):
        mount, _, filesystem = line.partition(" - ")
        match mount.split(" "), filesystem.split(" ", 2):
            case [number, parent, device, root, point, options, *_], [kind, _, more]:
                yield Mount(
                    number=number,
                    parent=parent,
                    point=_unescaped(point),
                    options=frozenset({*options.split(","), *more.split(",")}),
                    kind=kind,
                    source=(device, _unescaped(root)),
                )
            case _:
                raise StepFailed(f"cannot read a line of the mount table: {shorten(line, 200)!r}")


def place_of(mountinfo: str, path: PurePosixPath) -> tuple[str, PurePosixPath] | None:
    """Return a path's filesystem and the path in it, the same in every mount namespace; ``None`` if none holds it."""
    mount = mount_holding(mountinfo, path)
    if mount is None:
        return None
    device, root = mount.source
    return device, root / path.relative_to(mount.point)


def _unescaped(path: str) -> PurePosixPath:
    return PurePosixPath(_ESCAPED.sub(lambda code: _ESCAPES[code[1]], path))
