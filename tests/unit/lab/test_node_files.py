import json
from pathlib import Path

from e2e.lab.binaries.versions import Version
from e2e.lab.host.cgroups import Hierarchy, parse_hierarchies
from e2e.lab.naming import NodeAddresses
from e2e.lab.nodes.nodefiles import KUBELET_CONFIG, kubelet_flags, node_files
from e2e.lab.runtimes import runtime_named

ADDRESSES = NodeAddresses(3)
CONTAINERD = runtime_named("containerd")


def files(version: str) -> dict[str, str]:
    return node_files("node3", ADDRESSES, Version.parse(version), CONTAINERD)


def test_flags_are_those_the_version_accepts() -> None:
    def flags(version: str) -> str:
        return kubelet_flags("node3", ADDRESSES, Version.parse(version), CONTAINERD)

    assert "--container-runtime=remote " in flags("1.23.17")
    assert "--container-runtime=" not in flags("1.27.0")
    assert all("--node-ip=10.240.0.13 " in flags(version) for version in ("1.15.0", "1.33.13"))


def test_old_kubelets_report_their_status_instead_of_renewing_a_lease() -> None:
    def config(version: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(files(version)[KUBELET_CONFIG])
        return answer

    assert config("1.17.17")["nodeStatusReportFrequency"] == "10s"
    assert "nodeStatusReportFrequency" not in config("1.20.15")


def test_pods_get_addresses_of_their_own_node() -> None:
    conflist = json.loads(files("1.30.14")["/etc/cni/net.d/10-lab.conflist"])
    assert conflist["cniVersion"] == "0.3.1"
    assert conflist["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]


def test_cgroup_hierarchies_of_hybrid_and_unified_hosts() -> None:
    hybrid = """\
30 25 0:26 / /sys/fs/cgroup ro,nosuid shared:8 - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,release_agent=/x/agent,name=systemd
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/cpuset rw shared:11 - cgroup cgroup rw,cpuset,clone_children
34 30 0:30 / /sys/fs/cgroup/unified rw shared:12 - cgroup2 cgroup2 rw,nsdelegate
"""
    top = Path("/sys/fs/cgroup")
    assert parse_hierarchies(hybrid) == (
        Hierarchy(top / "systemd", "none,name=systemd"),
        Hierarchy(top / "cpu,cpuacct", "cpu,cpuacct"),
        Hierarchy(top / "cpuset", "cpuset"),
        Hierarchy(top / "unified", ""),
    )
    unified = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:8 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
    assert parse_hierarchies(unified) == (Hierarchy(top, ""),)
