"""Where a run keeps what is its own on a node: records and programs, and whether that survives a boot."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.mounts import has_option, holder, is_read_only

STATE_DIRECTORY = PurePosixPath("/var/lib/nodeupgrade")
"""Where records and journals are."""

PROGRAM_PLACES = (STATE_DIRECTORY, PurePosixPath("/var/lib/kubelet/nodeupgrade"))
"""Where a run may keep its programs. The kubelet's directory may execute programs where the rest of /var may not."""

ENFORCING = PurePosixPath("/sys/fs/selinux/enforce")
"""Whether SELinux refuses what its policy does not allow; absent where the kernel has no SELinux, or it is off."""
LABELLED = "seclabel"
"""Option that the kernel shows of a filesystem whose files can have SELinux labels of their own."""

VOLATILE = frozenset({"tmpfs", "ramfs"})
"""Types of file systems that are empty after a boot."""


def program_place(files: FilesView) -> PurePosixPath:
    """Return the first place from which programs can be executed, preferably after a boot too."""
    table, enforced = mounts(files), _is_enforced(files)
    fit = [place for place in PROGRAM_PLACES if not _obstacle(table, place, labels=enforced)]
    lasting = (place for place in fit if not _is_volatile(table, place))
    return next(lasting, next(iter(fit), STATE_DIRECTORY))


def unfit_for_programs(files: FilesView) -> dict[str, str]:
    """Return why a run's programs cannot be kept in any of the places for them; empty if they can in one."""
    table, enforced = mounts(files), _is_enforced(files)
    obstacles = {str(place): _obstacle(table, place, labels=enforced) for place in PROGRAM_PLACES}
    return obstacles if all(obstacles.values()) else {}


def volatile(files: FilesView, directories: Iterable[PurePosixPath]) -> tuple[str, ...]:
    """Return the directories that are empty after a boot."""
    table = mounts(files)
    return tuple(str(directory) for directory in directories if _is_volatile(table, directory))


def _is_enforced(files: FilesView) -> bool:
    return (files.read(ENFORCING) or b"").strip() == b"1"


def _obstacle(table: str, place: PurePosixPath, *, labels: bool) -> str:
    """Return why programs cannot be kept in a directory, as far as its mount tells; empty if they can.

    Programs need ``labels`` where systemd may not execute what has that of data.
    """
    if has_option("noexec", table, place):
        return "mounted noexec"
    if is_read_only(table, place):
        return "mounted read-only"
    unlabelled = labels and not has_option(LABELLED, table, place)
    return "without SELinux labels of its own files (seclabel)" if unlabelled else ""


def _is_volatile(table: str, directory: PurePosixPath) -> bool:
    """Report whether a directory is empty after a boot; what is written to an overlay is in a directory below it."""
    mount = holder(table, directory)
    if mount is not None and mount.upper is not None:
        mount = holder(table, mount.upper)
    return mount is not None and mount.kind in VOLATILE


MOUNTS = PurePosixPath("/proc/1/mountinfo")


def mounts(files: FilesView) -> str:
    """Return the host's mount table, which may differ from this process's."""
    return (files.read(MOUNTS) or b"").decode(errors="surrogateescape")


STATE = STATE_DIRECTORY
"""Directory of runs on the node, and of bundles where programs can be executed there."""

RUNS = STATE / "runs"


def bundles_on(files: FilesView) -> PurePosixPath:
    """Return the directory of the bundles on a node; the usual one if its mounts cannot be read, which fails later."""
    place = STATE
    with suppress(StepFailed):
        place = program_place(files)
    return place / "bundles"
