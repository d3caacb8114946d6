"""The kernel's limits of what all processes of the superuser, or of the node, have together, those of pods too. Pure.

Who has reached one keeps what he has: no Go program starts without epoll, no kubelet without inotify, nothing at all
without a process.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

INSTANCES, WATCHES = "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"
EPOLL = "fs.epoll.max_user_watches"
PROCESSES, THREADS = "kernel.pid_max", "kernel.threads-max"
NEEDED_BY_ALL = (EPOLL, PROCESSES, THREADS)
"""Not even systemd, and so nothing of a run, works without."""
RAISED: Mapping[str, int] = {
    INSTANCES: 65_536,
    WATCHES: 1_048_576,
    EPOLL: 2**40,
    PROCESSES: 2**22,
    THREADS: 2**22,
}
"""What a limit is raised to at least for a kubelet or runtime that has to start. None costs anything by itself; what
pods then have more of takes their own memory. Linux knows no more processes than 2**22.
"""
NEEDED = 8
"""Instances. A kubelet has them for cAdvisor, which it does not start without, for manifests of static pods, plugins
and certificates; a runtime that is restarted for its networks' configuration, among others.
"""
NEEDED_THREADS = 256
"""Of a kubelet and a runtime that start, with what they run, and of systemd's and our own programs."""


def path_of(limit: str) -> PurePosixPath:
    """Return the kernel's file of a limit."""
    return PurePosixPath("/proc/sys", *limit.split("."))


def used_up(limit: str) -> str:
    """Say what that means, and what to do."""
    return (
        f"{limit}, which counts what pods have as well, is used up, and no kubelet starts without; raise it: "
        f"sysctl -w {limit}=MORE"
    )
