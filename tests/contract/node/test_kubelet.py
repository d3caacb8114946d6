"""The kubelet's adapter on a real kubelet."""

from pathlib import PurePosixPath

import pytest

from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from tests.contract.node.real import systemd

pytestmark = pytest.mark.e2e

BINARY = PurePosixPath(nodefiles.KUBELET_BINARY)


@pytest.fixture
def kubelet(node: Node) -> HostKubelet:
    return HostKubelet(ProcessTable(node.root / "proc"), prefix=tuple(node.command()))


def test_a_kubelet_says_its_version_and_judges_its_flags(node: Node, kubelet: HostKubelet) -> None:
    assert kubelet.version_output(BINARY) == (0, f"Kubernetes v{node.record.kubelet}\n")
    status, said = kubelet.version_output(BINARY, ("--no-such-flag=1",))
    assert status != 0
    assert "no-such-flag" in said
    assert kubelet.version_output(PurePosixPath("/nowhere/kubelet"))[0] != 0


def test_a_running_process_is_looked_at(node: Node, kubelet: HostKubelet) -> None:
    main = systemd(node).status("containerd.service").main_pid

    assert kubelet.arguments(main) == ("/usr/bin/containerd",)
    assert kubelet.executable(main) == PurePosixPath("/usr/bin/containerd")


def test_the_program_of_a_process_has_the_stamp_of_its_file(node: Node, kubelet: HostKubelet) -> None:
    main = systemd(node).status("containerd.service").main_pid

    assert kubelet.program_stamp(main) == HostFiles(node.root).stamp(PurePosixPath("/usr/bin/containerd"))
    assert kubelet.program_stamp(1) is None, "systemd itself, which is yet to execute something"
    assert kubelet.program_stamp(0) is None


def test_the_boot_is_that_of_the_node_and_not_of_this_machine(node: Node) -> None:
    here, there = SystemClock(ProcessTable()), SystemClock(ProcessTable(node.root / "proc"))

    assert there.boot() == SystemClock(ProcessTable(node.root / "proc")).boot()
    assert here.boot() != there.boot()
