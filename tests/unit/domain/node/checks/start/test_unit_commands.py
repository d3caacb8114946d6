"""Which commands beside a unit's program are let pass, and that nothing that looks like them is."""

import pytest

from nodeupgrade.domain.check import ask
from nodeupgrade.domain.node.checks.units import CHECKS, is_harmless, unknown_commands, with_programs
from tests.unit.domain.node.checks.sound import command, unit

HARMLESS = [
    "/bin/true",
    "/usr/bin/test -e /etc/kubernetes/kubelet.conf",
    "/bin/grep -q cgroup2 /proc/mounts",
    "/bin/mkdir -p /var/lib/kubelet /etc/kubernetes/manifests",
    "/usr/bin/mkdir --parents /var/log/containers",
    "/sbin/modprobe overlay",
    "/sbin/modprobe -a overlay br_netfilter",
    "/usr/sbin/swapoff -a",
    "/sbin/sysctl -n net.ipv4.ip_forward",
    "/bin/mount --make-rshared /var/lib/kubelet",
    "/bin/systemctl is-active containerd.service",
    "/sbin/iptables -P FORWARD ACCEPT -w 5",
    "/sbin/iptables -t nat --numeric --list",
    "/bin/udevadm settle",
    "/bin/findmnt /var/lib/kubelet",
    # https://github.com/awslabs/amazon-eks-ami, Amazon Linux 2
    "/bin/ln -sf /run/containerd/containerd.sock /run/dockershim.sock",
    # https://github.com/kubernetes-sigs/image-builder, Flatcar
    "/usr/bin/ln -fs /run/containerd/containerd.sock /run/docker/libcontainerd/docker-containerd.sock",
    "/bin/ln -snf /run/containerd/containerd.sock /var/run/dockershim.sock",
]
UNKNOWN = [
    "/bin/cp /opt/old/kubelet /usr/bin/kubelet",
    "/bin/sh -c true",
    "/usr/bin/bash /opt/azure/containers/kubelet.sh",
    "/opt/bin/true",
    "/usr/local/bin/mkdir -p /x",
    "/bin/mkdir /var/lib/kubelet",
    "/bin/mkdir -p $DIRECTORY",
    "/bin/mkdir -p '/a b'",
    "/sbin/modprobe -r overlay",
    "/sbin/modprobe --install overlay",
    "/usr/sbin/swapoff /dev/sda2",
    "/sbin/sysctl -w kernel.panic=1",
    "/sbin/sysctl kernel.panic=1",
    "/sbin/sysctl --system",
    "/bin/mount /dev/sdb /var/lib/containerd",
    "/bin/mount --make-shared /a /b",
    "/bin/systemctl stop containerd.service",
    "/sbin/iptables -F",
    "/sbin/iptables -t nat -L -F",
    "/sbin/iptables -P FORWARD ACCEPT -F",
    "/bin/ln -f /run/containerd/containerd.sock /run/dockershim.sock",
    "/bin/ln -sf /opt/old/kubelet /usr/bin/kubelet",
    "/bin/ln -sf /etc/other.sock /run/dockershim.sock",
    "/bin/ln -sf /run/containerd/containerd.sock /etc/dockershim.sock",
    "/bin/ln -sf /run/a.sock /run/../etc/a.sock",
    "/bin/ln -sf /run/a.sock /run/nodeupgrade/b.sock",
    "/bin/ln -sf /run/a.sock /run/systemd/b.sock",
    "/bin/ln -sf /run/a.sock /run/b.sock /run",
    "/bin/ln -sf /run/containerd /run/docker",
    "/bin/ln -sfb /run/a.sock /run/b.sock",
    "/bin/rm -f /var/lib/kubelet/cpu_manager_state",
    "",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_known_forms_pass(line: str) -> None:
    assert is_harmless(command(line))
    assert list(ask(CHECKS, (unit("kubelet.service", commands=(command(line),)),))) == []


@pytest.mark.parametrize("line", UNKNOWN)
@pytest.mark.parametrize("when", ["ExecCondition", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost"])
def test_every_other_is_named_with_its_line(line: str, when: str) -> None:
    found = unit("kubelet.service", commands=(command("/usr/bin/kubelet", "ExecStart"), command(line, when)))

    [finding] = ask(CHECKS, (found,))

    assert f"{when}={line}" in finding.detail
    assert "systemctl cat kubelet.service" in finding.detail


@pytest.mark.parametrize(("found", "passes"), [("/usr/bin/mkdir", True), ("/usr/local/bin/mkdir", False), ("", False)])
def test_a_program_without_a_path_is_the_one_that_systemd_finds(found: str, *, passes: bool) -> None:
    named = unit("kubelet.service", commands=(command("mkdir -p /run/docker"),))

    [resolved] = with_programs((named,), {"mkdir": found})

    assert (ask(CHECKS, (resolved,)) == ()) is passes


def test_the_program_itself_is_not_beside_itself() -> None:
    assert unknown_commands(unit("kubelet.service", commands=(command("/opt/kubelet", "ExecStart"),))) == ()
