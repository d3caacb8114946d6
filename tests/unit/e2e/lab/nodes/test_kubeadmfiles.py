"""Tests the files of a node that kubeadm sets up."""

from e2e.lab.naming import NodeAddresses
from e2e.lab.nodes import kubeadmfiles, nodefiles
from e2e.lab.runtimes import runtime_named

CONTAINERD = runtime_named("containerd")
FILES = kubeadmfiles.node_files("node2", NodeAddresses(2), CONTAINERD)


def test_the_packages_bring_a_unit_with_a_drop_in_and_no_configuration() -> None:
    assert {kubeadmfiles.KUBELET_UNIT, kubeadmfiles.KUBELET_DROP_IN} <= set(FILES)
    assert not {nodefiles.KUBELET_UNIT, nodefiles.KUBELET_CONFIG, nodefiles.KUBELET_FLAGS} & set(FILES)
    *_, command, last = FILES[kubeadmfiles.KUBELET_DROP_IN].split("\n")
    assert (command.split()[0], last) == ("ExecStart=/usr/bin/kubelet", "")
    assert "$KUBELET_KUBEADM_ARGS" in command.split()


def test_nodes_reach_the_api_server_on_the_first_node_at_both_addresses() -> None:
    rules = FILES["/etc/lab/iptables"].splitlines()
    assert "-A OUTPUT -d 10.240.0.1/32 -p tcp --dport 6443 -j DNAT --to-destination 10.240.0.11:6443" in rules
    assert "-A PREROUTING -d 10.96.0.1/32 -p tcp --dport 443 -j DNAT --to-destination 10.240.0.11:6443" in rules
    assert "-A POSTROUTING -s 10.244.2.0/24 -d 10.240.0.11/32 -j MASQUERADE" in rules


def test_containerd_uses_the_cgroups_of_systemd() -> None:
    assert FILES["/etc/containerd/config.toml"].endswith("SystemdCgroup = true\n")
