"""Who listens on a socket, and where a containerd says that it keeps everything."""

import json
import os
import socket
from pathlib import Path

import pytest

from nodeupgrade.adapters.containerd import daemon
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.domain.errors import Transient
from nodeupgrade.domain.node.host import RuntimePlaces

TOLD = {
    "containerdRootDir": "/var/lib/containerd",
    "stateDir": "/run/containerd/io.containerd.grpc.v1.cri",
    "containerdEndpoint": "/run/c.sock",
}


def test_the_process_that_listens_is_known_with_its_command_line(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with pytest.raises(Transient, match="cannot connect"):
        daemon.listener(path, ProcessTable())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        found = daemon.listener(path, ProcessTable())

    assert found is not None
    assert found.pid == os.getpid()
    assert found.words == ProcessTable().arguments(os.getpid())
    assert found.program == ProcessTable().program_digest(os.getpid())


def test_a_process_that_cannot_be_seen_is_nobody(tmp_path: Path) -> None:
    assert ProcessTable().own_number(2**22 + 1) is None
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        assert daemon.listener(tmp_path / "socket", ProcessTable(tmp_path)) is None


@pytest.mark.parametrize(
    ("info", "places"),
    [
        (
            {"config": json.dumps(TOLD)},
            RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/c.sock"),
        ),
        ({}, None),
        ({"config": "no JSON"}, None),
        ({"config": "[]"}, None),
        ({"config": json.dumps({**TOLD, "stateDir": ""})}, None),
        ({"config": json.dumps({"containerdRootDir": "/x"})}, None),
    ],
)
def test_places_are_told_completely_or_not_at_all(info: dict[str, str], places: RuntimePlaces | None) -> None:
    assert daemon.places(info) == places
