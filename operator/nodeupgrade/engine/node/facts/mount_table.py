"""Read the host's mount table."""

from pathlib import PurePosixPath

from nodeupgrade.ports.files import FilesView

MOUNTS = PurePosixPath("/proc/1/mountinfo")


def mounts(files: FilesView) -> str:
    """Return the host's mount table, which may differ from this process's."""
    return (files.read(MOUNTS) or b"").decode(errors="surrogateescape")
