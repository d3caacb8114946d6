"""Stamps, which show cheaply whether a file is still the same one."""

from nodeupgrade.node.host.files.disk import Status


def stamp(status: Status) -> str:
    """Return device, inode, size and mtime of a file."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}"
