"""What surrounds a kubelet: each thing that would end, be missed, or take the node for another one is named."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import KubeletSettings, PackagePolicy
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelet.settings import Configured, configured
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import cgroups, host, other_tools
from nodeupgrade.node.checks.facts import NodeFacts, PodCgroups, Surroundings
from nodeupgrade.node.checks.kubelet import kubelet_keeps_its_name
from nodeupgrade.node.checks.units import nothing_else_stops, systemd_is_new_enough
from nodeupgrade.node.host.packages.dpkg import Package
from tests.unit.domain.node.checks.sound import SPEC, STATUS, facts, kubelet, pod, readiness

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
        readiness=readiness(layout=replace(read_layout(()), settings=settings, gates=gates)),
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
        Reason.STOPS_WITH_KUBELET, "containerd.service would stop", {"bound": ("containerd.service",)},
    ),
    "a daemon that serves a mount": (
        Reason.STOPS_WITH_KUBELET, "glusterfs (77)", {"daemons": ("glusterfs (77)",)},
    ),
    "a host of another name": (Reason.CONFIGURATION_DRIFT, "would register as node-b", {"hostname": "node-b"}),
    "another name on the command line": (
        Reason.CONFIGURATION_DRIFT, "--hostname-override gives it",
        {"settings": configured(("--hostname-override=other", "--cloud-provider=external"))},
    ),
    "no cgroup where pods are looked for": (
        Reason.POD_CGROUP_MOVES, "no cgroup /kubepods.slice", {"cgroups": group(exists=False)},
    ),
    "a controller that is gone": (
        Reason.POD_CGROUP_MOVES, "its cgroup lacks cpuset, hugetlb",
        {"cgroups": group(incomplete={"default/web": ("cpuset", "hugetlb")})},
    ),
    "a limit that sinks below what is used": (
        Reason.POD_CGROUP_MOVES, "would limit them to 6144Mi", {"settings": RESERVED, "cgroups": group()},
    ),
    "a limit where there was none": (
        Reason.POD_CGROUP_MOVES, "under no limit", {"settings": RESERVED, "cgroups": group(limit=None)},
    ),
    "a reservation that cannot be read": (
        Reason.POD_CGROUP_MOVES, "nobody can tell",
        {"settings": configured((), b"kubeReserved: {memory: much}"), "cgroups": group()},
    ),
    "a package that is not held": (
        Reason.KUBELET_FROM_PACKAGE, "which is not held", {"package": Package(manager="dpkg", name="kubelet")},
    ),
    "an upgrade of packages": (
        Reason.NODE_IN_OTHER_HANDS, "apt-daily-upgrade.service runs", {"package_jobs": ("apt-daily-upgrade.service",)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "told", "given"), REFUSED.values(), ids=REFUSED.keys())
def test_what_forbids_a_run(reason: Reason, told: str, given: dict[str, Any]) -> None:
    (finding,) = ask(CHECKS, around(**given))

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail


def test_a_pod_whose_cgroup_is_incomplete_is_named() -> None:
    (finding,) = ask(CHECKS, around(cgroups=group(incomplete={"default/web": ("cpuset",)})))

    assert finding.subject == "default/web"
    assert "delete the pod first" in finding.message


LET_PASS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "nothing is known": {"hostname": "", "cgroups": None, "node": {}},
    "daemons that outlive the kubelet": {"daemons": ("glusterfs (77)",), "ends_all": False},
    "a cloud provider that names the node": {
        "hostname": "ip-10-0-0-1", "settings": configured(("--cloud-provider=aws",)),
    },
    "the Node's name on the command line": {
        "hostname": "ip-10-0-0-1", "settings": configured(("--hostname-override=node-a",)),
    },
    "a lower limit that covers the usage": {"settings": RESERVED, "cgroups": group(used=5 * GIB)},
    "the same limit, and more in use than a page": {"settings": RESERVED, "cgroups": group(limit=6 * GIB)},
    "no limit that is enforced": {
        "settings": configured(("--enforce-node-allocatable=",), b"kubeReserved: {memory: 4Gi}"), "cgroups": group(),
    },
    "usage that is unknown": {"settings": RESERVED, "cgroups": group(used=None)},
}  # fmt: skip


@pytest.mark.parametrize("given", LET_PASS.values(), ids=LET_PASS.keys())
def test_what_does_no_harm_is_let_pass(given: dict[str, Any]) -> None:
    assert ask((*CHECKS, *WARNINGS), around(**given)) == ()


PROXY = {**SPEC, "image": "registry.k8s.io/kube-proxy:v1.26.15"}
CNI = ("/etc/cni/net.d/10-bridge.conflist",)


@pytest.mark.parametrize(
    ("given", "cautions"),
    [
        ({"marking": CNI}, 1),
        ({"marking": CNI, "target": V("v1.26.15"), "current": V("v1.25.16")}, 0),
        ({"marking": CNI, "current": V("v1.27.1")}, 0),
        ({"marking": CNI, "gates": {"IPTablesOwnershipCleanup": False}}, 0),
        ({"marking": CNI, "pods": (parse_pod(pod(containers=[PROXY])),)}, 0),
        ({}, 0),
    ],
)
def test_a_chain_that_is_missed_is_a_caution(given: dict[str, Any], cautions: int) -> None:
    found = ask(WARNINGS, around(**given))

    assert [(f.reason, f.forbids) for f in found] == [(Reason.IPTABLES_CHAINS_GONE, False)] * cautions
    assert ask(CHECKS, around(**given)) == ()


@pytest.mark.parametrize("name", other_tools.INSTALLERS)
def test_who_would_install_another_kubelet_is_named_with_what_to_do(name: str) -> None:
    (finding,) = ask(WARNINGS, around(installers=(name,)))

    assert (finding.reason, finding.forbids) == (Reason.NODE_IN_OTHER_HANDS, False)
    assert name in finding.detail
    assert other_tools.INSTALLERS[name] in finding.message
