"""Looking at volumes and at what surrounds the kubelet: where it is read, and that nothing of it is touched."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import NodeFacts, PodCgroups, VolumeClaim
from nodeupgrade.node.checks.registry import preflight, warnings
from nodeupgrade.node.facts.surroundings import look_at_surroundings
from nodeupgrade.node.host.packages.dpkg import Package
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kubelet import Answer, AsKubelet
from tests.doubles.node import SimulatedNode, pod_json
from tests.unit.domain.node.checks.sound import WEB, facts, kubelet, pod, readiness, unit

V = KubeletVersion.parse
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
ROOT = "21 1 253:0 / / rw shared:1 - ext4 /dev/vda1 rw"
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_web.slice"
GROUPS = "/sys/fs/cgroup"
ALL = b"cpuset cpu io memory hugetlb pids rdma misc\n"
FILES: Mapping[str, bytes] = {
    "/proc/1/mountinfo": ROOT.encode(),
    "/proc/sys/kernel/hostname": b"node-a\n",
    f"{GROUPS}/cgroup.controllers": ALL,
    f"{GROUPS}/kubepods.slice/cgroup.controllers": ALL,
    f"{GROUPS}/kubepods.slice/memory.max": b"8589934592\n",
    f"{GROUPS}/kubepods.slice/memory.current": b"5000\n",
    f"{GROUPS}/kubepods.slice/memory.stat": b"anon 3000\ninactive_file 1500\nbroken\n",
    f"{GROUPS}/{POD}/cgroup.controllers": ALL,
    f"{GROUPS}/system.slice/kubelet.service/cgroup.procs": b"7\n8\n9\n10\n",
    "/proc/8/stat": b"8 (journalctl) S 7 8 8 0 -1",
    "/proc/9/stat": b"9 (gluster (fs) d) S 1 9 9 0 -1",
}


class Server:
    """The API server as the kubelet's credentials see it."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def read(self, path: str) -> Answer:
        self.asked.append(path)
        if not self.answers:
            raise Transient("nobody answers")
        return self.answers.pop(0)

    def try_patch(self, path: str, patch: object) -> Answer:
        raise AssertionError(f"{path} is nothing to be changed: {patch}")


class Host:
    """The files and services of a simulated node, and an API server."""

    def __init__(self, server: Server | None = None, files: Mapping[str, bytes] = FILES) -> None:
        self.node_itself = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
        self.node_itself.disk.update(files)
        self.files, self.services = self.node_itself.files, self.node_itself.services
        self.kubelet, self._server = self.node_itself.kubelet, server
        self.packages = self.node_itself.packages

    def node(self, endpoint: str, runtime: str) -> Node:
        raise AssertionError(f"{endpoint} is none of its business")

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> AsKubelet:
        assert (str(kubeconfig), pid > 0) == (KUBECONFIG, True)
        if self._server is None:
            raise StepFailed("no credentials")
        return self._server


def known(**given: Any) -> NodeFacts:
    return facts(kubelet=kubelet(unit=unit("kubelet.service", control_group="/system.slice/kubelet.service")), **given)


def test_what_is_found_on_a_sound_node_is_no_finding() -> None:
    host = Host(files={path: data for path, data in FILES.items() if path != "/proc/9/stat"})
    seen = known()
    seen = replace(seen, around=look_at_surroundings(host, seen))
    effects = len(host.node_itself.calls.effects)

    assert (preflight(seen), warnings(seen)) == ((), ())
    complete = ExpectedCgroups(controllers=("cpu", "cpuset", "hugetlb", "memory", "pids"), places={WEB.uid: POD})
    assert seen.around.cgroups == PodCgroups(
        base="/kubepods.slice", exists=True, complete=complete, limit=8 * 1024**3, used=3500
    )
    assert (seen.around.hostname, seen.around.filesystem) == ("node-a", "ext4")
    assert len(host.node_itself.calls.effects) == effects


DPKG = "/var/lib/dpkg"
BY_DPKG: Mapping[str, bytes] = {
    f"{DPKG}/info/kubelet.list": b"/.\n/usr/bin/kubelet\n",
    f"{DPKG}/info/kubelet.md5sums": b"/usr/bin/kubelet\n",
    f"{DPKG}/status": b"Package: kubelet\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1.30.14-1.1\n",
}
BY_RPM: Mapping[str, bytes] = {
    "/var/lib/rpm/rpmdb.sqlite": b"SQLite format 3",
    "/etc/yum.repos.d/kubernetes.repo": b"[kubernetes]\nexclude=kubelet\n",
}


@pytest.mark.parametrize(
    ("files", "package"),
    [
        ({}, None),
        (BY_DPKG, Package(manager="dpkg", name="kubelet", version="1.30.14-1.1", architecture="amd64", held=True)),
        ({f"{DPKG}/status": b"Package: bash\nStatus: install ok installed\n", **BY_RPM}, None),
        ({f"{DPKG}/status": b"\n", **BY_RPM}, Package(manager="rpm", name="kubelet", held=True)),
        (BY_RPM, Package(manager="rpm", name="kubelet", held=True)),
    ],
    ids=["no package manager", "dpkg", "rpm beside dpkg", "dpkg without packages", "rpm"],
)
def test_the_package_of_the_kubelet_is_found_without_running_anything(
    files: Mapping[str, bytes], package: Package | None
) -> None:
    host, seen = Host(files={**FILES, **files}), known()
    assert seen.kubelet.program == "/usr/bin/kubelet"
    assert look_at_surroundings(host, seen).package == package
    assert not host.node_itself.calls.effects


@pytest.mark.parametrize(
    ("by_rpm", "found"),
    [
        (None, (Package(manager="rpm", name="kubelet", held=True), True)),
        ({}, (None, False)),
        ({"/usr/bin/kubelet": ("kubelet",)}, (Package(manager="rpm", name="kubelet", held=True), False)),
        ({"/bin/kubelet": ("kubernetes-node",)}, (Package(manager="rpm", name="kubernetes-node"), False)),
        ({"/usr/bin/kubelet": ("kubelet", "other")}, (Package(manager="rpm", name="other"), False)),
    ],
    ids=["not asked", "a copy", "a package", "a package that lists it under its other name", "two packages"],
)
def test_rpm_is_asked_whose_the_kubelet_is(
    by_rpm: Mapping[str, tuple[str, ...]] | None, found: tuple[Package | None, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(files={**FILES, **BY_RPM})
    host.node_itself.packages.by_rpm = by_rpm
    real = host.files.real
    merged = {"/bin/kubelet": PurePosixPath("/usr/bin/kubelet")}
    monkeypatch.setattr(host.files, "real", lambda path: merged.get(str(path), real(path)))

    seen = look_at_surroundings(host, known())

    assert (seen.package, seen.package_assumed) == found


def test_units_that_install_kubelets_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    real = host.services.status

    def status(name: str) -> UnitStatus:
        there = "/lib/systemd/system/kops-configuration.service" if name == "kops-configuration.service" else ""
        return replace(real(name), fragment_path=there)

    monkeypatch.setattr(host.services, "status", status)

    assert look_at_surroundings(host, known()).installers == ("kops-configuration.service",)


def test_a_node_that_shows_nothing_is_no_finding() -> None:
    host, seen = Host(files={}), known(readiness=readiness(cgroup_driver=None))

    assert look_at_surroundings(host, seen).cgroups is None
    assert preflight(replace(seen, around=look_at_surroundings(host, seen))) == ()


def test_a_daemon_is_what_init_has_adopted() -> None:
    assert look_at_surroundings(Host(), known()).daemons == ("gluster (fs) d (9)",)


def test_a_daemon_is_found_in_the_hierarchy_of_systemd() -> None:
    files = {
        f"{GROUPS}/systemd/system.slice/kubelet.service/cgroup.procs": b"9\n", "/proc/9/stat": FILES["/proc/9/stat"],
    }  # fmt: skip

    assert [daemon.split()[-1] for daemon in look_at_surroundings(Host(files=files), known()).daemons] == ["(9)"]


CLAIMING = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
]
DEFECTIVE = V("v1.32.3")


def claiming(target: KubeletVersion, layout: Any = None) -> NodeFacts:
    words = read_layout((f"--kubeconfig={KUBECONFIG}",)) if layout is None else layout
    return known(target=target, pods=(parse_pod(pod(volumes=CLAIMING)),), readiness=readiness(layout=words))


def test_claims_are_read_for_a_kubelet_that_heeds_their_deletion() -> None:
    server = Server(Answer(200, '{"metadata": {"deletionTimestamp": "2026-11-21T05:45:28Z"}}'), Answer(404, ""))

    found = look_at_surroundings(Host(server), claiming(DEFECTIVE))
    assert found.claims == (
        VolumeClaim(pod="default/web", name="data", deleting=True),
        VolumeClaim(pod="default/web", name="web-scratch", unread="HTTP 404"),
    )
    assert server.asked == [
        "/api/v1/namespaces/default/persistentvolumeclaims/data",
        "/api/v1/namespaces/default/persistentvolumeclaims/web-scratch",
    ]


def test_claims_are_not_read_for_any_other_kubelet() -> None:
    assert look_at_surroundings(Host(), claiming(V("v1.33.13"))).claims == ()


@pytest.mark.parametrize(
    ("server", "layout", "unread", "asked"),
    [
        (Server(), None, ["nobody answers"] * 2, 1),
        (Server(Answer(200, "[]"), Answer(200, '{"metadata": {}}')), None, ["the answer is not understood", ""], 2),
        (None, None, ["no credentials"] * 2, 0),
        (Server(), read_layout(()), ["it has no kubeconfig"] * 2, 0),
    ],
)
def test_a_claim_that_cannot_be_read_is_told(server: Server | None, layout: Any, unread: list[str], asked: int) -> None:
    found = look_at_surroundings(Host(server), claiming(DEFECTIVE, layout))

    assert [claim.unread for claim in found.claims] == unread
    assert len([] if server is None else server.asked) == asked
