"""Tests which commands a systemd unit is allowed to run beside its program."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks import units
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.units import is_harmless, paths_in, script_of, units_log_to_no_file, unknown_commands
from nodeupgrade.node.checks.vendor_commands import KNOWN, SCRIPTS
from nodeupgrade.node.host.systemd.start_obstacles import StartObstacles
from nodeupgrade.node.host.systemd.units import UnitCommand
from tests.builders.sound import command, facts, kubelet, start, unit

CHECKS = checks_of(units, warns=False)


def found(*commands: UnitCommand, contents: Mapping[str, str] | None = None, **more: Any) -> NodeFacts:
    """A node whose kubelet's unit has these commands."""
    found = kubelet(unit=unit("kubelet.service", commands=commands))
    return facts(kubelet=found, kubelet_start=replace(start("kubelet.service"), files=contents or {}), **more)


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
    # https://github.com/easzlab/kubeasz
    "/bin/mount -o remount,rw /sys/fs/cgroup",
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
    "/usr/bin/ln -s -f /run/containerd/containerd.sock /run/dockershim.sock",
    "/usr/bin/ln --symbolic --force -T /run/crio/crio.sock /run/dockershim.sock",
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
    "/bin/mount -o remount,rw /",
    "/bin/mount -o remount,ro /sys/fs/cgroup",
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
    "/bin/ln -s -b /run/a.sock /run/b.sock",
    "/bin/ln --force /run/a.sock /run/b.sock",
    "/bin/ln -sf /run/a.sock /run/containerd/containerd.sock",
    "/bin/ln -sf /run/a.sock /var/run/crio/crio.sock",
    "/bin/ln -sf /run/a.sock /run/docker.sock",
    "/bin/ln -sf /run/a.sock /run/cri-dockerd.sock",
    "/bin/rm -f /var/lib/kubelet/cpu_manager_state",
    "",
]


@pytest.mark.parametrize("line", HARMLESS)
def test_known_forms_pass(line: str) -> None:
    assert is_harmless(command(line))
    assert list(ask(CHECKS, found(command(line)))) == []


@pytest.mark.parametrize("line", UNKNOWN)
@pytest.mark.parametrize("when", ["ExecCondition", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost"])
def test_every_other_is_named_with_its_line(line: str, when: str) -> None:
    [finding] = ask(CHECKS, found(command("/usr/bin/kubelet", "ExecStart"), command(line, when)))

    assert f"{when}={line}" in finding.detail
    assert "systemctl cat kubelet.service" in finding.detail


@pytest.mark.parametrize(("where", "passes"), [("/usr/bin/mkdir", True), ("/usr/local/bin/mkdir", False), ("", False)])
def test_a_program_without_a_path_is_the_one_that_systemd_finds(where: str, *, passes: bool) -> None:
    assert (ask(CHECKS, found(command("mkdir -p /run/docker"), programs={"mkdir": where})) == ()) is passes


def test_the_program_itself_is_not_beside_itself() -> None:
    assert unknown_commands(unit("kubelet.service", commands=(command("/opt/kubelet", "ExecStart"),)), {}) == ()


@pytest.mark.parametrize("known", sorted(KNOWN))
def test_a_line_of_a_distribution_passes_with_exactly_its_text_and_its_scripts(known: str) -> None:
    contents = {path: min(digests) for path, digests in SCRIPTS.items() if path in known}
    line = command(known)

    assert ask(CHECKS, found(line, contents=contents)) == ()
    for other in (known.upper(), f"{known} ", known.replace(" ", "  ")):
        assert len(ask(CHECKS, found(command(other), contents=contents))) == 1
    assert len(ask(CHECKS, found(replace(line, program="/opt/sh"), contents=contents))) == 1
    for path in contents:
        assert path in paths_in(line)
        assert len(ask(CHECKS, found(line, contents={**contents, path: "0" * 64}))) == 1
        assert len(ask(CHECKS, found(line, contents={}))) == 1


@pytest.mark.parametrize(
    ("line", "script"),
    [
        ("/bin/bash /opt/vendor/start", "/opt/vendor/start"),
        ("/bin/bash -x --norc /opt/vendor/start -e", "/opt/vendor/start"),
        ("/usr/bin/python3 -u /opt/vendor/start", "/opt/vendor/start"),
        ("/bin/sh -euc /opt/vendor/start", ""),
        ("/bin/sh -e", ""),
        ("/usr/bin/env /opt/vendor/start", ""),
    ],
)
def test_the_script_that_a_shell_is_given_is_known(line: str, script: str) -> None:
    assert script_of(command(line)) == script


def test_what_an_unknown_command_may_run_is_named() -> None:
    line = command("/usr/bin/bash -c test -f /etc/x && /opt/vendor/start.sh --log=/var/log/x; a/b")

    assert paths_in(line) == ("/usr/bin/bash", "/etc/x", "/opt/vendor/start.sh", "/var/log/x")
    assert paths_in(command("/bin/mkdir -p /var/lib/kubelet")) == ()
    assert paths_in(command("/usr/bin/kubelet", "ExecStart")) == ()


def test_a_unit_whose_failure_ends_the_machine_is_refused() -> None:
    drastic = unit("kubelet.service", ends_machine=("FailureAction=reboot", "OnFailure=emergency.target"))

    told = ask(CHECKS, facts(kubelet=kubelet(unit=drastic)))

    assert [each.reason for each in told] == [Reason.KUBELET_STOP_AFFECTS_OTHERS] * 2
    assert ["FailureAction=reboot" in told[0].detail, "OnFailure=emergency.target" in told[1].detail] == [True, True]
    assert all("remove the setting" in each.message for each in told)


LOST = StartObstacles(certain=("the kubelet requires gone.service",), probable=("the kubelet requires bad.service",))


def test_what_keeps_a_unit_from_being_started_again_refuses_and_what_may_pass_can_be_accepted() -> None:
    node = facts(kubelet_start=replace(start("kubelet.service"), obstacles=LOST))

    findings = ask(CHECKS, node, {"units_can_be_started", "units_would_start_again"})

    told = [(each.reason, each.detail, each.forbids) for each in findings]
    assert told == [
        (Reason.KUBELET_WOULD_NOT_START, *LOST.certain, True),
        (Reason.KUBELET_WOULD_NOT_START, *LOST.probable, False),
    ]
    assert all("reset-failed" in str(each.remedy) for each in findings)


def test_a_runtime_that_is_not_restarted_need_not_start_again() -> None:
    node = facts(runtime_start=replace(start("containerd.service"), obstacles=LOST))

    assert len(ask(CHECKS, node)) == 2
    assert ask(CHECKS, replace(node, restarts_runtime=False)) == ()


@pytest.mark.parametrize(
    ("kubelets", "runtimes", "words", "found"),
    [
        (("StandardOutput=append",), (), "", "kubelet.service has StandardOutput=append, "),
        ((), ("StandardError=file",), "", "containerd.service has StandardError=file, "),
        ((), (), "--logtostderr=false --log-file=/var/log/kubelet.log", "kubelet.service has --log-file=/var/log/"),
        ((), (), "--log-file=/var/log/kubelet.log", None),
        ((), (), "--logtostderr=false --log-dir=/var/log", None),
        ((), (), "--lock-file=/var/lock/kubelet.lock", "kubelet.service has --lock-file=/var/lock/kubelet.lock, "),
    ],
)
def test_a_file_that_must_be_opened_at_a_start_is_told(
    kubelets: tuple[str, ...], runtimes: tuple[str, ...], words: str, found: str | None
) -> None:
    node = facts(
        kubelet=kubelet(unit=unit("kubelet.service", log_files=kubelets)),
        runtime_unit=unit("containerd.service", log_files=runtimes),
        readiness=replace(facts().readiness, layout=read_layout(tuple(words.split()))),
    )

    assert [f.detail.startswith(found or "-") for f in units_log_to_no_file(node)] == ([True] if found else [])
    if runtimes:  # no matter while the runtime is not restarted
        assert not tuple(units_log_to_no_file(replace(node, restarts_runtime=False)))
