"""How full a filesystem is, as the kernel reports it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """How full a filesystem is.

    Attributes:
        free: bytes that an unprivileged user can still write.
        inodes: 0 if the filesystem makes them as needed.
    """

    size: int
    free: int
    inodes: int
    free_inodes: int
