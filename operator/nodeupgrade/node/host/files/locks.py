"""The locks and leases on files, as the kernel lists them (proc_locks(5)).

Who may read a file may lock it, also where it is mounted read-only, and wait for that until nobody else has it locked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.text import lines, number

LARGEST = 4 * 1024**2
"""Bytes: 70,000 locks, in half a second. The kernel gives a page at once, and walks to it through all before."""
_LOCK = re.compile(r"\d+: +(-> +)?(\w+) +\S+ +(\S+) +(-?)(\d+) (\S+):(\d+) \d+ (?:\d+|EOF)", re.ASCII)
"""Of one that a process waits for, after an arrow: type, whether it is enforced, access, process, file, and extent."""
_OF_FCNTL = frozenset({"POSIX", "OFDLCK"})
"""Those of flock(2) ask for nothing but an open file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLock:
    """A lock that a process has, or waits for."""

    pid: int  # -1 if it belongs to an open file, whoever has that
    device: str  # major and minor number of the filesystem's device, as the kernel writes them: ``fd:01``
    inode: int
    writes: bool = False  # whether the process has it, and could only get it with the file open for writing


def parse_locks(text: str) -> Iterator[FileLock]:
    """Read the kernel's list.

    Raises:
        ValueError: a line is none of a lock.
    """
    for line in lines(text):
        if (found := _LOCK.fullmatch(line)) is None:
            raise ValueError(f"not a lock: {line[:100]!r}")
        waits, kind, access, minus, pid, device, inode = found.groups()
        yield FileLock(
            pid=-1 if minus else number(pid) or 0,
            device=device,
            inode=number(inode) or 0,
            writes=not waits and kind in _OF_FCNTL and access == "WRITE",
        )


def device_of(major: int, minor: int) -> str:
    """Return a device as the kernel writes it there."""
    return f"{major:02x}:{minor:02x}"
