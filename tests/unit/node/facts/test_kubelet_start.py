"""Tests how the files that a unit starts with are read again."""

import os
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.node.facts.kubelet_start import read_again, read_start, run_by
from nodeupgrade.node.host.files.files import LARGEST_READ
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.systemd.unit_start import differences
from nodeupgrade.node.host.systemd.units import UnitCommand
from nodeupgrade.node.names_beside import backup_path, staged_path
from tests.builders.sound import unit
from tests.doubles.node import SimulatedNode


@pytest.fixture
def node() -> SimulatedNode:
    return SimulatedNode(version="v1.30.14", pods=[])


def test_what_a_pattern_stands_for_is_read_again_and_a_new_file_is_a_difference(node: SimulatedNode) -> None:
    several = unit("kubelet.service", environment_files=(("/etc/k/*.env", False),))
    node.disk["/etc/k/1.env"] = b"A=1"
    planned = read_start(node.files, several)
    assert list(differences(planned, read_again(node.files, several, planned))) == []

    node.disk.update({"/etc/k/1.env": b"A=2", "/etc/k/2.env": b"", "/etc/k/README": b""})

    assert list(differences(planned, read_again(node.files, several, planned))) == [
        "/etc/k/*.env was changed", "/etc/k/1.env was changed", "/etc/k/2.env was changed",
    ]  # fmt: skip


def test_what_pods_have_below_the_directory_of_a_pattern_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet's own directory, for example: pods have millions of files there, or file servers that hang."""
    directory = tmp_path / "var/lib/kubelet"
    (directory / "pods/volumes").mkdir(parents=True)
    (tmp_path / "flags").write_text("A=1\n")
    (directory / "1.env").symlink_to("/flags")
    several = unit("kubelet.service", environment_files=(("/var/lib/kubelet/*.env", False),))
    looked, listdir = set[str](), os.listdir

    def look(path: str) -> list[str]:
        looked.add(str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", look)

    found = read_start(HostFiles(tmp_path), several)

    assert found.files["/var/lib/kubelet/*.env"] == "/var/lib/kubelet/1.env"
    assert looked == {str(directory)}


def test_a_program_that_a_command_names_may_be_large(tmp_path: Path) -> None:
    """Another kubelet, for example."""
    program = tmp_path / "opt/kubelet"
    program.parent.mkdir()
    program.touch(0o755)
    os.truncate(program, LARGEST_READ + 1)
    planned = read_start(HostFiles(tmp_path), unit("kubelet.service"), ("/opt/kubelet",))

    os.truncate(program, LARGEST_READ + 2)

    again = read_again(HostFiles(tmp_path), unit("kubelet.service"), planned)
    assert list(differences(planned, again)) == ["/opt/kubelet was changed"]


def test_what_other_commands_run_is_read_again_too_but_not_what_the_run_exchanges(node: SimulatedNode) -> None:
    lines = ("/bin/bash /opt/start --log /run/x.sh /opt/data", "/sbin/restorecon /usr/bin/kubelet /opt/helper.sh")
    commands = tuple(UnitCommand(when="ExecStartPre", program=line.split()[0], line=line) for line in lines)
    before = unit("kubelet.service", commands=commands)
    node.disk.update(dict.fromkeys(("/bin/bash", "/opt/start", "/run/x.sh", "/sbin/restorecon", "/opt/helper.sh"), b""))
    read = tuple(run_by(node.files, before, PurePosixPath("/usr/bin/kubelet")))
    assert read == ("/bin/bash", "/opt/start", "/sbin/restorecon", "/opt/helper.sh")
    planned = read_start(node.files, before, read)

    node.disk.update({"/opt/start": b"exit 1", "/run/x.sh": b"2", "/usr/bin/kubelet": b"new"})

    now = read_again(node.files, before, planned)
    assert list(differences(planned, now)) == ["/opt/start was changed"]


@pytest.mark.parametrize("name", ["20.conf", "deeper/20.conf", "deeper/still/20.conf"])
@pytest.mark.parametrize("linked", [False, True], ids=["a file", "a link"])
def test_whatever_is_read_in_a_directory_is_looked_for_when_it_is_read_again(
    tmp_path: Path, name: str, *, linked: bool
) -> None:
    """Kubelets and CRI-O read their drop-ins by filepath.Walk: in directories below, too, and what links lead to."""
    files, directory = HostFiles(tmp_path), tmp_path / "etc/k.d"
    directory.mkdir(parents=True)
    (tmp_path / "etc/other").write_text("maxPods: 1\n")
    (directory / "10.conf").symlink_to("/etc/other")
    planned = read_start(files, unit("kubelet.service"), (), ("/etc/k.d",))
    assert list(differences(planned, read_again(files, unit("kubelet.service"), planned))) == []

    (new := directory / name).parent.mkdir(parents=True, exist_ok=True)
    if linked:
        new.symlink_to("/etc/other")
    else:
        new.write_text("staticPodPath: /elsewhere\n")

    now = read_again(files, unit("kubelet.service"), planned)
    assert list(differences(planned, now)) == ["/etc/k.d/ was changed"]


def test_what_a_run_puts_beside_a_drop_in_that_it_exchanges_is_no_change(node: SimulatedNode) -> None:
    node.disk["/etc/k.d/10.conf"] = b""
    planned = read_start(node.files, unit("kubelet.service"), (), ("/etc/k.d",))

    for beside in (staged_path, backup_path):
        node.disk[beside("/etc/k.d/10.conf")] = b"maxPods: 1"

    assert list(differences(planned, read_again(node.files, unit("kubelet.service"), planned))) == []
