"""Try whether the kernel's limits leave room for a kubelet that starts; what is taken for that is given back."""

import ctypes
import errno
import os
import select
from contextlib import suppress
from itertools import islice, product
from pathlib import Path

from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.host.processes.processes import INIT
from nodeupgrade.node.running_kubelet.kernel_limits import (
    EPOLL,
    INSTANCES,
    NEEDED_THREADS,
    PROCESSES,
    THREADS,
    WATCHES,
    path_of,
)
from nodeupgrade.text import number, trimmed, words

PROC = Path("/proc")
WATCH_OPENED = 0x20
"""IN_OPEN: any event will do."""
WATCHED = 64
"""Files of each instance. A kubelet watches every directory of cgroups, and is not started if it cannot."""
EPOLLS = 16
"""Each with as many descriptors: what a kubelet and a runtime that start have connections for."""

_libc = ctypes.CDLL(None, use_errno=True)


def used_up_limit(proc: Path, instances: int) -> str | None:
    """Return a limit that leaves no room: of processes first, then of epoll, then of inotify.

    What is counted for this process is counted for a kubelet only in its user namespace, as the same user.

    Args:
        proc: where the node's processes are.
        instances: of inotify.

    Returns:
        ``None`` if there is none, or that cannot be known here.
    """
    with suppress(OSError):
        own, nodes = (str((root / "ns/user").readlink()) for root in (PROC / "self", proc / str(INIT)))
        if own == nodes and os.geteuid() == 0:
            return _threads(proc) or _epoll() or _inotify(instances)
    return None


def _inotify(instances: int) -> str | None:
    taken = list[int]()
    try:
        for _ in range(instances):
            if (descriptor := _libc.inotify_init1(os.O_CLOEXEC)) < 0:
                return INSTANCES if ctypes.get_errno() == errno.EMFILE else None
            taken.append(descriptor)
        watched = [bytes(path) for path in islice(PROC.iterdir(), WATCHED)]
        for instance, path in product(taken, watched):  # each counts; what has ended since does not
            if _libc.inotify_add_watch(instance, path, WATCH_OPENED) < 0 and ctypes.get_errno() == errno.ENOSPC:
                return WATCHES
    finally:
        for descriptor in taken:
            os.close(descriptor)
    return None


def _epoll() -> str | None:
    descriptors, polls = list[int](), list[select.epoll]()
    try:
        descriptors.extend(os.eventfd(0, os.EFD_CLOEXEC) for _ in range(EPOLLS))
        polls.extend(select.epoll() for _ in range(EPOLLS))
        for poll, descriptor in product(polls, descriptors):
            poll.register(descriptor)
    except OSError as error:
        return EPOLL if error.errno == errno.ENOSPC else None
    finally:
        for poll in polls:
            poll.close()
        for descriptor in descriptors:
            os.close(descriptor)
    return None


def _threads(proc: Path) -> str | None:
    """Count them all, as the kernel does, whatever namespace they are in."""
    load = words(_told(proc / "loadavg"))
    threads = number("".join(load[3:4]).partition("/")[2]) or 0
    for limit in (PROCESSES, THREADS):
        most = number(trimmed(_told(proc / path_of(limit).relative_to(PROC))))
        if most is not None and threads + NEEDED_THREADS > most:
            return limit
    return None


def _told(path: Path) -> str:
    with suppress(OSError):
        return read_file(path).decode(errors="replace")
    return ""
