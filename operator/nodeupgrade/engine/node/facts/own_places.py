"""Find out where a run can keep its programs on a node, and whether what it writes survives a boot."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.domain.node.mounts import holder
from nodeupgrade.engine.node.facts.mount_table import mounts
from nodeupgrade.ports.files import FilesView

BESIDE_THE_KUBELET = PurePosixPath("/var/lib/kubelet/nodeupgrade")
"""Below the kubelet's directory, which may execute programs where the rest of /var may not."""
VOLATILE = frozenset({"tmpfs", "ramfs"})
"""Types of file systems that are empty after a boot."""


def program_place(files: FilesView, *places: PurePosixPath) -> PurePosixPath:
    """Return the first of these directories from which programs can be executed, preferably after a boot too."""
    fit = [place for place in places if not obstacle_to_programs(files, place)]
    lasting = (place for place in fit if not volatile(files, (place,)))
    return next(lasting, next(iter(fit), places[0]))


def obstacle_to_programs(files: FilesView, place: PurePosixPath) -> str:
    """Return why programs cannot be kept in a directory, as far as its mount tells; empty if they can."""
    mount = holder(mounts(files), place)
    options = frozenset[str]() if mount is None else mount.options
    return "mounted noexec" if "noexec" in options else "mounted read-only" if "ro" in options else ""


def volatile(files: FilesView, directories: Iterable[PurePosixPath]) -> tuple[str, ...]:
    """Return the directories that are empty after a boot."""
    table = mounts(files)
    held = ((directory, holder(table, directory)) for directory in directories)
    return tuple(str(directory) for directory, mount in held if mount is not None and mount.kind in VOLATILE)
