"""The kernel's limits of inotify, which count what all processes of the superuser have, those of pods too. Pure."""

from collections.abc import Mapping
from pathlib import PurePosixPath

DIRECTORY = PurePosixPath("/proc/sys/fs/inotify")
INSTANCES, WATCHES = "max_user_instances", "max_user_watches"
RAISED: Mapping[str, int] = {INSTANCES: 65_536, WATCHES: 1_048_576}
"""What a limit is raised to at least for a kubelet or runtime that has to start: neither costs anything by itself."""
NEEDED = 8
"""Instances. A kubelet has them for cAdvisor, which it does not start without, for manifests of static pods, plugins
and certificates; a runtime that is restarted for its networks' configuration, among others.
"""


def used_up(limit: str) -> str:
    """Say what that means, and what to do."""
    return (
        f"fs.inotify.{limit}, which counts for all processes of the superuser, those of pods too, is used up, and "
        f"without inotify no kubelet starts; raise it: sysctl -w fs.inotify.{limit}=MORE"
    )
