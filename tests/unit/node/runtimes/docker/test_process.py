"""Tests for finding the dockerd process."""

import os
import socket
from pathlib import PurePosixPath

import pytest

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.runtimes.docker import process as runtime
from tests.builders.docker_node import Node

ENDPOINT = PurePosixPath("/run/docker.sock")


def listens(node: Node, inode: int, path: str) -> None:
    """Have another socket in the kernel's list, before the others."""
    head, *others = node.processes.text(1, "net/unix").splitlines(keepends=True)
    line = f"ffff: 00000002 00000000 00010000 0001 01 {inode} {path}\n"
    node.network(1, unix="".join((head, line, *others)))


def test_of_those_who_hold_the_socket_it_is_not_systemd(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("/dev/null", "socket:[17]"))

    found = runtime.find_daemon(ENDPOINT, 70, node.processes, node.files)

    assert found is not None
    assert (found.pid, found.words) == (70, ("/usr/sbin/dockerd",))


def test_another_process_than_the_units_is_named(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("socket:[18]",))
    node.process(71, "dockerd", 1, opened=("socket:[17]",))

    found = runtime.find_daemon(ENDPOINT, 70, node.processes, node.files)

    assert found is not None
    assert found.pid == 71


@pytest.mark.parametrize("by", ["its PID", "its cgroup"])
def test_the_daemon_may_have_bound_another_name_of_the_path(node: Node, by: str) -> None:
    listens(node, 21, "/var/run/docker.sock")
    node.process(70, "dockerd", 1, opened=("socket:[21]",))
    (node.root / "proc/70/cgroup").write_text("0::/system.slice/docker.service\n")
    (node.root / "run").mkdir()
    (node.root / "var").mkdir()
    (node.root / "var/run").symlink_to("/run")
    with socket.socket(socket.AF_UNIX) as bound:
        at = os.open(node.root / "run", os.O_PATH)
        bound.bind(f"/proc/self/fd/{at}/docker.sock")
        os.close(at)

    found = runtime.find_daemon(ENDPOINT, 70 if by == "its PID" else 0, node.processes, node.files)

    assert found is not None
    assert found.pid == 70


def test_no_path_that_a_pod_has_bound_is_followed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lead into a volume of NFS whose server never answers."""
    listens(node, 21, "/pods/volume/docker.sock")
    node.process(69, "tenant", 1, opened=("socket:[21]",))
    node.process(70, "dockerd", 1, opened=("socket:[17]",))

    def never(_files: HostFiles, path: PurePosixPath) -> PurePosixPath | None:
        raise AssertionError(path)

    monkeypatch.setattr(HostFiles, "socket", never)
    for main_pid in (70, 0):
        found = runtime.find_daemon(ENDPOINT, main_pid, node.processes, node.files)
        assert found is not None
        assert found.pid == 70


def test_where_nobody_holds_it_nobody_is_named(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("socket:[20]",))
    assert runtime.find_daemon(ENDPOINT, 70, node.processes, node.files) is None
