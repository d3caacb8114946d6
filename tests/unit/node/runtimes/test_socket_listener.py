"""The process that listens on a socket."""

import errno
import os
import select
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nodeupgrade.errors import Transient
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.runtimes.socket_listener import find_listener, open_listener

LISTENING = """
    import socket, sys
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    print("listens", flush=True)
    sys.stdin.read()
    """


def test_the_process_that_listens_is_known_with_its_command_line(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with pytest.raises(Transient, match="cannot connect"):
        find_listener(path, ProcessTable())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        found = find_listener(path, ProcessTable())

    assert found is not None
    assert found.pid == os.getpid()
    assert found.words == ProcessTable().arguments(os.getpid())
    assert found.program == ProcessTable().program_digest(os.getpid())


def test_a_process_that_cannot_be_seen_is_nobody(tmp_path: Path) -> None:
    assert ProcessTable().own_number(2**22 + 1) is None
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        assert find_listener(tmp_path / "socket", ProcessTable(tmp_path)) is None


def test_the_end_of_a_process_that_listens_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert open_listener(path) is None
    command = [sys.executable, "-c", textwrap.dedent(LISTENING), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        found = open_listener(path)
        assert found is not None
        assert select.select([found], [], [], 0)[0] == []
        other.kill()
        assert select.select([found], [], [], 60)[0] == [found]
        os.close(found)
    assert open_listener(path) is None


def test_where_a_process_cannot_be_followed_there_is_nothing_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older kernel, or a process that ended between two looks, whose PID another one may have by now."""
    path = tmp_path / "socket"

    def unknown(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    def meanwhile(pid: int) -> int:
        path.unlink()
        return opened(pid)

    opened = os.pidfd_open
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        for open_process in (unknown, meanwhile):
            monkeypatch.setattr(os, "pidfd_open", open_process)
            assert open_listener(path) is None
