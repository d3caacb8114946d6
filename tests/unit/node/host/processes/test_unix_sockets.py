"""Tests for reading Unix sockets from the kernel, with real connections."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.unix_sockets import unix_sockets

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
STAY = "import time; print(1, flush=True); time.sleep(60)"
CONNECT = f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); {STAY}"
"""Programs that tell when they are ready."""


@contextmanager
def running(*command: str) -> Iterator[int]:
    """A process of this command, once it says that it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@AS_ROOT
@pytest.mark.parametrize("apart", [False, True], ids=["in the same network", "in one of its own"])
def test_the_kernel_tells_who_is_connected_also_from_another_network(tmp_path: Path, *, apart: bool) -> None:
    path = tmp_path / "s"
    enter = ("unshare", "--net") if apart else ()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        with running(*enter, sys.executable, "-c", CONNECT, str(path)) as pid, server.accept()[0] as accepted:
            table = ProcessTable()
            network = table.open_network(pid)
            found = unix_sockets(network)
            os.close(network)

            mine = os.fstat(accepted.fileno()).st_ino
            [other] = [each for each in found.values() if each.peer == mine]
            assert (found[mine].named, other.named) == (True, False)
            assert other.inode in table.sockets(pid)
            assert mine in table.sockets(os.getpid())


@AS_ROOT
def test_reading_in_another_network_leaves_this_process_where_it_is(tmp_path: Path) -> None:
    table = ProcessTable()
    before = table.network(os.getpid())
    with running("unshare", "--net", sys.executable, "-c", STAY) as pid:
        assert table.network(pid) != before
        network = table.open_network(pid)
        unix_sockets(network)
        os.close(network)
    assert table.network(os.getpid()) == before
    assert Path("/proc/thread-self/ns/net").readlink() == Path("/proc/self/ns/net").readlink()
