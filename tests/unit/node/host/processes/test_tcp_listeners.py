"""Tests the list of those who listen at TCP ports, on the sockets of this machine."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from nodeupgrade.kubelet.served_ports import ServedPort
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.tcp_listeners import ListeningSocket, listening_sockets
from nodeupgrade.node.running_kubelet import host_kubelet
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from nodeupgrade.node.running_kubelet.taken_ports import taken_ports
from tests.builders.as_root import AS_ROOT

pytestmark = AS_ROOT


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_kernel_tells_who_listens(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as listening, Path("/proc/self/ns/net").open("rb") as network:
        try:
            listening.bind((address, 0))
        except OSError:
            pytest.skip(f"this machine has no {address}")
        port, inode = listening.getsockname()[1], os.fstat(listening.fileno()).st_ino
        assert port not in {found.port for found in listening_sockets(network.fileno())}, "it does not listen yet"
        listening.listen()

        found = listening_sockets(network.fileno())

    assert ListeningSocket(address=address, port=port, inode=inode) in found


def test_a_listener_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    kubelet = HostKubelet(ProcessTable())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        (found,) = kubelet.listeners({port}, lambda: 0)

    assert (found.address, found.port, found.pid) == ("127.0.0.1", port, os.getpid())
    assert Path("/proc/self/comm").read_text().strip() in found.who
    assert kubelet.listeners({port}, lambda: 0) == ()


def test_before_all_others_the_process_is_looked_at_that_is_likely_to_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pods may have so many files open that it takes long."""
    asked, look = list[int](), ProcessTable.sockets

    def sockets(self: ProcessTable, pid: int) -> frozenset[int]:
        asked.append(pid)
        return look(self, pid)

    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    monkeypatch.setattr(ProcessTable, "sockets", sockets)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        (found,) = HostKubelet(ProcessTable()).listeners({listening.getsockname()[1]}, os.getpid)

    assert (found.pid, asked) == (os.getpid(), [os.getpid()])


LISTENS = """
import socket, sys
input()
listening = socket.create_server((sys.argv[1], int(sys.argv[2])), family=int(sys.argv[3]))
print(flush=True)
input()
"""


@pytest.mark.parametrize(
    ("family", "host", "everywhere"),
    [(socket.AF_INET, "127.0.0.1", "0.0.0.0"), (socket.AF_INET6, "::1", "::")],  # noqa: S104
)
def test_where_a_connection_arrives_is_known_from_the_kernel(
    family: socket.AddressFamily, host: str, everywhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the network that is asked is another one, as that of the pod is to which a connection is led."""
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    port = listening.getsockname()[1]
    listens = ["unshare", "--net", sys.executable, "-c", LISTENS, everywhere, str(port), str(int(family))]
    with listening, subprocess.Popen(listens, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as elsewhere:
        try:
            assert elsewhere.stdin is not None
            assert elsewhere.stdout is not None
            shown = f"[{host}]" if ":" in host else host
            kubelet = HostKubelet(ProcessTable(), healthz=f"http://{shown}:{port}/healthz")
            while Path(f"/proc/{elsewhere.pid}/ns/net").samefile("/proc/self/ns/net"):
                pass
            monkeypatch.setattr(host_kubelet, "INIT", elsewhere.pid)
            assert not kubelet.diverted(), "a kubelet that has still to listen may fail before"
            elsewhere.stdin.write(b"\n")
            elsewhere.stdin.flush()
            elsewhere.stdout.readline()
            for pid, diverted in ((os.getpid(), False), (elsewhere.pid, True), (2**30, False)):
                monkeypatch.setattr(host_kubelet, "INIT", pid)
                assert kubelet.diverted() is diverted
                monkeypatch.setattr(socket, "create_connection", refused)
                assert kubelet.diverted() is (pid != 2**30), "who listens is not reached"
                monkeypatch.undo()
        finally:
            elsewhere.kill()
    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    assert not kubelet.diverted(), "nobody listens any more"


@pytest.mark.parametrize("theirs", ["127.0.0.2", "::1"])
def test_who_listens_at_the_same_port_of_another_address_is_not_meant(
    theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod in the node's network may: a kubelet that has still to listen would be taken for one that nobody meets."""
    try:
        other = socket.create_server((theirs, 0), family=socket.AF_INET6 if ":" in theirs else socket.AF_INET)
    except OSError:
        pytest.skip(f"this machine has no {theirs}")
    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    with other:
        kubelet = HostKubelet(ProcessTable(), healthz=f"http://127.0.0.1:{other.getsockname()[1]}/healthz")

        assert not kubelet.diverted()


def test_a_kubelet_that_begins_to_listen_meanwhile_can_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as before, socket.socket() as kubelets:
        kubelets.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        at = before.getsockname()
        kubelet = HostKubelet(ProcessTable(), healthz=f"http://127.0.0.1:{at[1]}/healthz")

        def begins(*_given: object) -> NoReturn:
            before.close()
            kubelets.bind(at)
            kubelets.listen()
            raise ConnectionRefusedError

        monkeypatch.setattr(socket, "create_connection", begins)

        assert not kubelet.diverted()


def refused(*_given: object) -> NoReturn:
    raise ConnectionRefusedError


def test_who_has_more_connections_than_it_takes_is_reached_though_nobody_gets_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listening, contextlib.ExitStack() as waiting:
        at = listening.getsockname()
        for _ in range(2):
            waiting.enter_context(socket.create_connection(at))
        kubelet = HostKubelet(ProcessTable(), healthz=f"http://127.0.0.1:{at[1]}/healthz", healthz_timeout=0.2)

        assert not kubelet.diverted()


def test_a_node_whose_kernel_does_not_tell_has_no_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_kubelet, "INIT", 2**30)

    assert HostKubelet(ProcessTable()).listeners({1}, lambda: 0) == ()


def test_a_node_on_which_no_thread_can_be_started_has_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods may use up what a kernel has for processes and threads: that must not end an executor."""

    def fails(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
    monkeypatch.setattr(threading.Thread, "start", fails)

    assert HostKubelet(ProcessTable()).listeners({1}, lambda: 0) == ()


ADDRESSES = ("0.0.0.0", "::", "127.0.0.1", "127.0.0.2", "::1")  # noqa: S104


def listening(address: str, port: int = 0) -> socket.socket:
    """Listen as a program in Go does: where on all addresses, on those of both families."""
    dual = address in {"0.0.0.0", "::"}  # noqa: S104
    made = socket.socket(socket.AF_INET6 if dual or ":" in address else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("::" if dual else address, port))
        made.listen()
    except OSError:
        made.close()
        raise
    return made


@pytest.mark.parametrize("theirs", ADDRESSES)
@pytest.mark.parametrize("kubelets", ADDRESSES)
def test_the_kernel_gives_a_kubelet_the_ports_that_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, kubelets: str, theirs: str
) -> None:
    try:
        other = listening(theirs)
    except OSError:
        pytest.skip(f"this machine has no {theirs}")
    with other:
        port = other.getsockname()[1]
        monkeypatch.setattr(host_kubelet, "INIT", os.getpid())
        found = HostKubelet(ProcessTable()).listeners({port}, lambda: 0)
        taken = [
            *taken_ports((ServedPort(setting="port", address=kubelets, port=port),), found, 0, diverted=lambda: False)
        ]
        if not taken:
            listening(kubelets, port).close()
            return
        with pytest.raises(OSError, match="in use"):
            listening(kubelets, port)
    assert [each.by and each.by.pid for each in taken] == [os.getpid()]
