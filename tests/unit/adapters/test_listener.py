"""The process that listens on a socket."""

import os
import socket
from pathlib import Path

import pytest

from nodeupgrade.adapters.proc import ProcessTable, listener
from nodeupgrade.domain.errors import Transient


def test_the_process_that_listens_is_known_with_its_command_line(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with pytest.raises(Transient, match="cannot connect"):
        listener(path, ProcessTable())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        found = listener(path, ProcessTable())

    assert found is not None
    assert found.pid == os.getpid()
    assert found.words == ProcessTable().arguments(os.getpid())
    assert found.program == ProcessTable().program_digest(os.getpid())


def test_a_process_that_cannot_be_seen_is_nobody(tmp_path: Path) -> None:
    assert ProcessTable().own_number(2**22 + 1) is None
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        assert listener(tmp_path / "socket", ProcessTable(tmp_path)) is None
