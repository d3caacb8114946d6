"""Where a run keeps its own records and programs on a node, and whether they survive a reboot."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import has_option, is_read_only, mount_holding, mount_table

STATE_DIRECTORY = PurePosixPath("/var/lib/nodeupgrade")
"""Holds records and journals."""
RUNS = STATE_DIRECTORY / "runs"
PROGRAM_PLACES = (STATE_DIRECTORY, PurePosixPath("/var/lib/kubelet/nodeupgrade"))
"""Where a run may keep its programs. The kubelet's directory may execute programs where the rest of /var may not."""
PROGRAM_BYTES, PROGRAM_FILES = 160 * 1024**2, 6000
"""What both copies of these programs take at most. An earlier version's are removed only at the end of a run."""
ENFORCING = PurePosixPath("/sys/fs/selinux/enforce")
"""``1`` if SELinux enforces its policy; absent where the kernel has no SELinux, or it is off."""
LABELLED = "seclabel"
"""Mount option of a filesystem whose files can have SELinux labels of their own."""
VOLATILE = frozenset({"tmpfs", "ramfs"})
"""Types of filesystems that are empty after a reboot."""


def program_place(files: FilesView) -> PurePosixPath:
    """Return the first place from which programs can be executed, preferably after a reboot too."""
    table, enforced = mount_table(files), is_enforced(files)
    fit = [place for place in PROGRAM_PLACES if not _obstacle(table, place, labels=enforced)]
    lasting = (place for place in fit if not _is_volatile(table, place))
    return next(lasting, next(iter(fit), STATE_DIRECTORY))


def unfit_for_programs(files: FilesView) -> dict[str, str]:
    """Return why no place can hold a run's programs, by place; empty if one can."""
    table, enforced = mount_table(files), is_enforced(files)
    obstacles = {str(place): _obstacle(table, place, labels=enforced) for place in PROGRAM_PLACES}
    return obstacles if all(obstacles.values()) else {}


def volatile(files: FilesView, directories: Iterable[PurePosixPath]) -> tuple[str, ...]:
    """Return the directories that are empty after a reboot."""
    table = mount_table(files)
    return tuple(str(directory) for directory in directories if _is_volatile(table, directory))


def selinux_is_on(files: FilesView) -> bool:
    """Report whether SELinux is on, even if it enforces nothing."""
    return files.read(ENFORCING) is not None


def is_enforced(files: FilesView) -> bool:
    """Report whether SELinux enforces its policy."""
    return files.read(ENFORCING) in {b"1", b"1\n"}


def _obstacle(table: str, place: PurePosixPath, *, labels: bool) -> str:
    """Return why a directory's mount prevents keeping programs there; empty if it does not.

    Programs need ``labels`` where systemd may not execute files with the label of data.
    """
    if has_option("noexec", table, place):
        return "mounted noexec"
    if is_read_only(table, place):
        return "mounted read-only"
    unlabelled = labels and not has_option(LABELLED, table, place)
    return "without SELinux labels of its own files (seclabel)" if unlabelled else ""


def _is_volatile(table: str, directory: PurePosixPath) -> bool:
    """Report whether a directory is empty after a reboot; an overlay keeps its files in its upper directory."""
    mount = mount_holding(table, directory)
    if mount is not None and mount.upper is not None:
        mount = mount_holding(table, mount.upper)
    return mount is not None and mount.kind in VOLATILE


def bundles_on(files: FilesView) -> tuple[PurePosixPath, PurePosixPath]:
    """Return the directories of the bundles on a node and of their spare copies; the usual ones without its mounts."""
    place = STATE_DIRECTORY
    with suppress(StepFailed):
        place = program_place(files)
    return place / "bundles", place / "spare"
