"""Tests for describing a caller of the shield."""

from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.shield.caller_names import UNKNOWN, described


@pytest.mark.parametrize(
    ("pid", "group", "expected"),
    [
        (7, "1:name=systemd:/user.slice/session-3.scope\n0::/\n", "crictl (process 7 of session-3.scope)"),
        (7, "0::/\n", "crictl (process 7)"),
        (7, "0::/system.slice/kubelet.service\n", ""),
        (7, "4:cpu:/kubelet.service\n1:name=systemd:/other.slice\n", "crictl (process 7)"),
        (8, "", "a process that has ended (8)"),
        (0, "", UNKNOWN),
    ],
)
def test_a_caller_is_described(tmp_path: Path, pid: int, group: str, expected: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (crictl) S 1" + " 0" * 20)
    (tmp_path / "7/cgroup").write_text(group)
    processes, program = ProcessTable(tmp_path), PurePosixPath("/usr/bin/kubelet")
    assert described(processes, pid, kubelet=program, unit="kubelet.service") == expected


def test_the_program_of_the_kubelet_is_the_kubelet_wherever_its_control_group_is(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (kubelet) S 1" + " 0" * 20)
    (tmp_path / "7/exe").symlink_to("/usr/bin/kubelet")
    program = PurePosixPath("/usr/bin/kubelet")
    assert described(ProcessTable(tmp_path), 7, kubelet=program, unit="kubelet.service") == ""
