"""Tests the files and kubelet flags of a node that the lab sets up."""

import json

from e2e.lab.binaries.versions import Version
from e2e.lab.naming import NodeAddresses
from e2e.lab.nodes import nodefiles
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


def test_kubelets_that_read_no_configuration_get_it_as_flags() -> None:
    def flags(version: str) -> str:
        return kubelet_flags("node3", ADDRESSES, Version.parse(version), runtime_named("docker"))

    for version in ("1.7.0", "1.9.11"):
        assert "--config=" not in flags(version)
        assert "--eviction-hard=memory.available<10Mi,nodefs.available<1%," in flags(version)
        assert "--allow-privileged=true" in flags(version)
    assert "--fail-swap-on" not in flags("1.7.0")
    assert "--config=" in flags("1.12.10")
    assert "--allow-privileged" not in flags("1.12.10")


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


def test_without_kubeadm_only_the_service_address_is_led_elsewhere() -> None:
    rules = nodefiles.iptables_rules(NodeAddresses(2))
    assert rules.count("DNAT") == 2
    assert "-d 10.240.0.1/32 -p tcp" not in rules
