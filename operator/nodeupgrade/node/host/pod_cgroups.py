"""The cgroups of a kubelet's pods: their paths and the controllers that they need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.api.values import PodUid
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import QosClass

NEEDED = frozenset({"cpu", "cpuset", "memory", "hugetlb", "pids"})
"""Controllers that a pod's cgroup must have on cgroup v2, as far as the node has them at all."""
NEEDED_V1 = frozenset({"cpu", "cpuacct", "cpuset", "memory", "hugetlb", "pids", "name=systemd"})
"""Hierarchies of cgroup v1 in which a pod must have a directory, as far as they are mounted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCgroups:
    """The cgroups of pods that a starting kubelet looks for, before it does anything else for the pods."""

    # on cgroup v1, mount points of the hierarchies that must have each of them, by name
    hierarchies: Mapping[str, str] = field(default_factory=dict)
    controllers: tuple[str, ...] = ()  # on cgroup v2, the controllers that each of them must have
    # on cgroup v1 below systemd, what the kernel's lists of devices hold that not every container has, by their path
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # path of each pod's cgroup, relative to the root of a hierarchy
    places: Mapping[PodUid, str] = field(default_factory=dict)


def manages_cgroups(settings: Configured) -> bool:
    """Report whether the kubelet makes a cgroup for each pod, as it does by default."""
    return settings.text("cgroups-per-qos", "cgroupsPerQOS", "true").lower() != "false"


def all_pods(settings: Configured, driver: str) -> PurePosixPath:
    """Return the cgroup that holds all pods, relative to the root of the hierarchy."""
    return _path(driver, _base(settings))


def of_pod(settings: Configured, driver: str, uid: str, qos: QosClass) -> PurePosixPath:
    """Return the cgroup of a pod, relative to the root of the hierarchy."""
    of_class = () if qos is QosClass.GUARANTEED else (qos.value.lower(),)
    return _path(driver, (*_base(settings), *of_class, f"pod{uid}"))


def _base(settings: Configured) -> tuple[str, ...]:
    root = settings.text("cgroup-root", "cgroupRoot", "/")
    return (*(part for part in root.split("/") if part), "kubepods")


def _path(driver: str, parts: tuple[str, ...]) -> PurePosixPath:
    """Join the parts of a cgroup's name; the name of a systemd slice contains those of all slices above it."""
    if driver != "systemd":
        return PurePosixPath(*parts)
    escaped = [part.replace("-", "_") for part in parts]
    return PurePosixPath(*("-".join(escaped[: length + 1]) + ".slice" for length in range(len(escaped))))
