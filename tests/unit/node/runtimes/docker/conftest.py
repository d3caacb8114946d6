"""Fixtures for tests of the Docker adapter."""

from pathlib import Path

import pytest

from tests.builders.docker_node import Node

UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
ffff: 00000002 00000000 00010000 0001 01 17 /run/docker.sock
ffff: 00000002 00000000 00010000 0001 01 18 /run/other/docker.sock
ffff: 00000003 00000000 00000000 0001 03 19 /run/docker.sock
ffff: 00000003 00000000 00000000 0001 03 20
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.process(1, "systemd", 0, opened=("socket:[17]", "socket:[18]"))
    made.network(1, unix=UNIX)
    return made
