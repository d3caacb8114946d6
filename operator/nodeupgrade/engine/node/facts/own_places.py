"""Where a run keeps what is its own on a node: records and programs, and whether that survives a boot."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.domain.node.mounts import has_option, holder, is_read_only
from nodeupgrade.engine.node.facts.mount_table import mounts
from nodeupgrade.ports.files import FilesView

STATE_DIRECTORY = PurePosixPath("/var/lib/nodeupgrade")
"""Where records and journals are."""

PROGRAM_PLACES = (STATE_DIRECTORY, PurePosixPath("/var/lib/kubelet/nodeupgrade"))
"""Where a run may keep its programs. The kubelet's directory may execute programs where the rest of /var may not."""

VOLATILE = frozenset({"tmpfs", "ramfs"})
"""Types of file systems that are empty after a boot."""


def program_place(files: FilesView) -> PurePosixPath:
    """Return the first place from which programs can be executed, preferably after a boot too."""
    table = mounts(files)
    fit = [place for place in PROGRAM_PLACES if not _obstacle(table, place)]
    lasting = (place for place in fit if not _is_volatile(table, place))
    return next(lasting, next(iter(fit), STATE_DIRECTORY))


def unfit_for_programs(files: FilesView) -> dict[str, str]:
    """Return why a run's programs cannot be kept in any of the places for them; empty if they can in one."""
    table = mounts(files)
    obstacles = {str(place): _obstacle(table, place) for place in PROGRAM_PLACES}
    return obstacles if all(obstacles.values()) else {}


def volatile(files: FilesView, directories: Iterable[PurePosixPath]) -> tuple[str, ...]:
    """Return the directories that are empty after a boot."""
    table = mounts(files)
    return tuple(str(directory) for directory in directories if _is_volatile(table, directory))


def _obstacle(table: str, place: PurePosixPath) -> str:
    """Return why programs cannot be kept in a directory, as far as its mount tells; empty if they can."""
    if has_option("noexec", table, place):
        return "mounted noexec"
    return "mounted read-only" if is_read_only(table, place) else ""


def _is_volatile(table: str, directory: PurePosixPath) -> bool:
    mount = holder(table, directory)
    return mount is not None and mount.kind in VOLATILE
