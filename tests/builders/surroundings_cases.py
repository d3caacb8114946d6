"""Builds a kubelet with its surroundings, and provides cases that forbid a run."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import KubeletSettings, PackagePolicy
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelet.settings import Configured, configured
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import cgroups, host, other_tools
from nodeupgrade.node.checks.facts import NodeFacts, PodCgroups, Surroundings
from nodeupgrade.node.checks.kubelet import kubelet_keeps_its_name
from nodeupgrade.node.checks.startup import StartingHost
from nodeupgrade.node.checks.units import nothing_else_stops, systemd_is_new_enough
from nodeupgrade.node.host.packages.dpkg_database import Package
from tests.builders.sound import STATUS, facts, kubelet, readiness

ROOMS = (cgroups, host, other_tools)
OTHERS, WARNINGS = (
    [check for check in checks_of(*ROOMS, warns=warns) if check.facts is NodeFacts] for warns in (False, True)
)
CHECKS = (nothing_else_stops, systemd_is_new_enough, kubelet_keeps_its_name, *OTHERS)
V = KubeletVersion.parse
BEFORE, AFTER, NOTHING_SET = V("v1.26.15"), V("v1.27.16"), Configured()
GIB = 1024**3
RESERVED = configured((), b"kubeReserved: {memory: 1Gi}\nsystemReserved: {memory: 1Gi}")


def around(
    *,
    current: KubeletVersion = BEFORE,
    target: KubeletVersion = AFTER,
    settings: Configured = NOTHING_SET,
    gates: Mapping[str, bool] = MappingProxyType({}),
    pods: tuple[Pod, ...] = (),
    node: Mapping[str, Any] = MappingProxyType({"metadata": {"name": "node-a"}, "status": STATUS}),
    program: str = "/usr/bin/kubelet",
    package_policy: PackagePolicy = PackagePolicy.REFUSE,
    capacity: Mapping[str, int] = MappingProxyType({}),
    **given: Any,
) -> NodeFacts:
    known = {
        "hostname": "Node-A\n",
        "cgroups": PodCgroups(base="/kubepods.slice", exists=True, limit=8 * GIB, used=GIB),
    }
    seen = facts(
        node=dict(node),
        pods=pods,
        kubelet=kubelet(current=current, program=program),
        readiness=readiness(
            layout=replace(read_layout(()), settings=settings, gates=gates), host=StartingHost(capacity=capacity)
        ),
        around=Surroundings(**{**known, **given}),
        target=target,
    )
    return replace(seen, spec=replace(seen.spec, kubelet=KubeletSettings(package=package_policy)))


def group(**given: Any) -> PodCgroups:
    return PodCgroups(**{"base": "/kubepods.slice", "exists": True, "limit": 8 * GIB, "used": 7 * GIB, **given})


REFUSED: dict[str, tuple[Reason, str, dict[str, Any]]] = {
    "a systemd that does not know the fence": (
        Reason.UNSUPPORTED_SERVICE_MANAGER, "systemd 215 runs, which is older than 219", {"systemd": 215},
    ),
    "a service that is part of the kubelet's": (
        Reason.KUBELET_STOP_AFFECTS_OTHERS, "containerd.service would stop", {"bound": ("containerd.service",)},
    ),
    "a daemon that serves a mount": (
        Reason.KUBELET_STOP_AFFECTS_OTHERS, "glusterfs (77)", {"daemons": ("glusterfs (77)",)},
    ),
    "a host of another name": (Reason.CONFIGURATION_DRIFT, "would register as node-b", {"hostname": "node-b"}),
    "another name on the command line": (
        Reason.CONFIGURATION_DRIFT, "--hostname-override gives it",
        {"settings": configured(("--hostname-override=other", "--cloud-provider=external"))},
    ),
    "no cgroup where pods are looked for": (
        Reason.POD_CGROUP_WOULD_CHANGE, "no cgroup /kubepods.slice", {"cgroups": group(exists=False)},
    ),
    "a controller that is gone": (
        Reason.POD_CGROUP_WOULD_CHANGE, "its cgroup lacks cpuset, hugetlb",
        {"cgroups": group(incomplete={"default/web": ("cpuset", "hugetlb")})},
    ),
    "a GPU that systemd does not know of": (
        Reason.DEVICES_WOULD_BE_LOST, "does not know of its devices c 195:0 rw",
        {"fragile_devices": {"default/job/main": ("c 195:0 rw",)}},
    ),
    "a limit that sinks below what is used": (
        Reason.POD_CGROUP_WOULD_CHANGE, "would limit them to 6144Mi", {"settings": RESERVED, "cgroups": group()},
    ),
    "a limit where there was none": (
        Reason.POD_CGROUP_WOULD_CHANGE, "under no limit", {"settings": RESERVED, "cgroups": group(limit=None)},
    ),
    "a limit by the memory that the host has left": (
        Reason.POD_CGROUP_WOULD_CHANGE, "would limit them to 6144Mi",
        {"capacity": {"memory": 6 * GIB}, "cgroups": group()},
    ),
    "a reservation that cannot be read": (
        Reason.POD_CGROUP_WOULD_CHANGE, "it is unknown",
        {"settings": configured((), b"kubeReserved: {memory: much}"), "cgroups": group()},
    ),
    "a package that is not held": (
        Reason.KUBELET_FROM_PACKAGE, "which is not held", {"package": Package(manager="dpkg", name="kubelet")},
    ),
    "an upgrade of packages": (
        Reason.CONFLICTING_NODE_OPERATION, "apt-daily-upgrade.service is running",
        {"package_jobs": ("apt-daily-upgrade.service",)},
    ),
}  # fmt: skip


CNI = ("/etc/cni/net.d/10-bridge.conflist",)
