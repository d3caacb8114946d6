"""Tests for finding the dockerd process."""

from pathlib import PurePosixPath

from nodeupgrade.node.runtimes.docker import process as runtime
from tests.builders.docker_node import Node

ENDPOINT = PurePosixPath("/run/docker.sock")


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


def test_where_nobody_holds_it_nobody_is_named(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("socket:[20]",))
    assert runtime.find_daemon(ENDPOINT, 70, node.processes, node.files) is None
