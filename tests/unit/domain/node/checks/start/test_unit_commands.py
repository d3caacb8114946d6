"""Which commands beside a unit's program are let pass, and that nothing that looks like them is."""

import pytest

from nodeupgrade.domain.check import ask
from nodeupgrade.domain.node.checks.units import CHECKS, is_harmless, unknown_commands
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


def test_the_program_itself_is_not_beside_itself() -> None:
    assert unknown_commands(unit("kubelet.service", commands=(command("/opt/kubelet", "ExecStart"),))) == ()
