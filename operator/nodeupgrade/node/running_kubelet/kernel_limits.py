"""The kernel's limits of what all processes of the superuser, or of the node, have together, those of pods too. Pure.

Who has reached one keeps what he has: no Go program starts without epoll, no kubelet without inotify, nothing at all
without a process.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

INSTANCES, WATCHES = "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"
EPOLL = "fs.epoll.max_user_watches"
PROCESSES, THREADS = "kernel.pid_max", "kernel.threads-max"
LIMITS: Mapping[str, int] = {
    INSTANCES: 2**31 - 1,
    WATCHES: 2**31 - 1,
    EPOLL: 2**31 - 1,
    PROCESSES: 2**22,
    THREADS: 2**22,
}
"""What each is raised to while no kubelet runs: none costs anything by itself, and what pods then have more of takes
their own memory. Linux knows no more processes than 2**22.
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
