"""Tests for the kubelet process: its program, arguments, environment, and health."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from tests.builders.web_server import Server, sends, server

__all__ = ["server"]


def test_healthz_is_ok_or_not(server: Server) -> None:
    kubelet = HostKubelet(ProcessTable(), healthz=server.url)
    for answer, expected in ((sends(b"ok"), True), (sends(b"no"), False), (sends(b"ok", status=500), False)):
        server.answer = answer
        assert kubelet.healthy() is expected
    assert not HostKubelet(ProcessTable(), healthz="http://127.0.0.1:1/healthz").healthy()


def test_its_health_is_asked_for_although_nothing_can_be_imported_any_more(server: Server) -> None:
    """Somebody removes the executor's bundle, or its disk fails, while no kubelet runs."""
    server.answer = sends(b"ok")
    asks = f"""
import sys
from pathlib import Path
from nodeupgrade.node.executor import process
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
sys.meta_path.clear()
print(HostKubelet(ProcessTable(Path("/proc")), healthz={server.url!r}).healthy())
"""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", asks], env=environment, capture_output=True, check=True, timeout=600)

    assert done.stdout == b"True\n"


@pytest.mark.parametrize("piece", [b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", b"x" * 10_000], ids=["slow", "slower", "much"])
def test_who_listens_in_place_of_a_kubelet_holds_up_nobody(piece: bytes) -> None:
    """While none runs, its port is anybody's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall(piece)
                    time.sleep(0.1)

        threading.Thread(target=trickle, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/healthz"
        began = time.monotonic()

        assert not HostKubelet(ProcessTable(), healthz=url, healthz_timeout=0.5).healthy()
        assert time.monotonic() - began < 5


def test_a_replaced_program_has_no_path(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/sh").read_bytes())
    program.chmod(0o755)
    command = [str(program), "-c", "echo started; read wait", ""]
    kubelet = HostKubelet(ProcessTable())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert kubelet.executable(process.pid) == PurePosixPath(program)
        assert kubelet.arguments(process.pid) == tuple(command)
        stamp = HostFiles(tmp_path).stamp(PurePosixPath("/program"))
        assert kubelet.program_stamp(process.pid) == stamp
        other = tmp_path / "other"
        other.write_bytes(b"")
        other.replace(program)
        assert kubelet.executable(process.pid) is None
        assert kubelet.program_stamp(process.pid) == stamp != HostFiles(tmp_path).stamp(PurePosixPath("/program"))
        assert ProcessTable().program_digest(process.pid) == sha256(Path("/bin/sh").read_bytes()).hexdigest()
        process.communicate(b"", timeout=600)
    with pytest.raises(Transient, match="is gone"):
        kubelet.arguments(process.pid)


def test_a_script_is_no_binary_and_runs_as_its_interpreter(tmp_path: Path) -> None:
    """What it is that runs as a script cannot be told, so a script is no kubelet."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho started; read wait\n")
    script.chmod(0o755)
    (tmp_path / "empty").touch()
    kubelet = HostKubelet(ProcessTable(), root=tmp_path)
    with subprocess.Popen([str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert kubelet.program_stamp(process.pid) != HostFiles(tmp_path).stamp(PurePosixPath("/script"))
        process.communicate(b"", timeout=600)

    assert [kubelet.is_elf(PurePosixPath(f"/{name}")) for name in ("script", "empty", "none")] == [False] * 3
    assert HostKubelet(ProcessTable()).is_elf(PurePosixPath("/bin/sh"))
    with pytest.raises(StepFailed, match="cannot read /: "):
        kubelet.is_elf(PurePosixPath("/"))


def test_a_process_tells_its_start_and_its_environment() -> None:
    kubelet = HostKubelet(ProcessTable())
    before = time.time()
    pipe, environment = subprocess.PIPE, {"A": "1=2", "B": ""}
    with subprocess.Popen(["/bin/cat"], stdin=pipe, stdout=pipe, bufsize=0, env=environment) as process:
        # While a program is being loaded the kernel shows an empty environment: wait until it runs.
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"
        assert kubelet.environment(process.pid) == environment
        assert before - 0.1 <= kubelet.started(process.pid) <= time.time()
    for ask in (kubelet.environment, kubelet.started):
        with pytest.raises(Transient, match="is gone"):
            ask(2**22 + 1)


def test_who_has_a_port_is_not_looked_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods may have thousands of processes with tens of thousands of descriptors each."""
    now, asked, open_network = [100.0], list[int](), ProcessTable.open_network

    def sockets(_: ProcessTable, pid: int) -> frozenset[int]:
        now[0] += 0.9
        asked.append(pid)
        return frozenset()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(ProcessTable, "open_network", lambda processes, _: open_network(processes, os.getpid()))
        monkeypatch.setattr(ProcessTable, "pids", lambda _: tuple(range(1, 1000)))
        monkeypatch.setattr(ProcessTable, "sockets", sockets)
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        port = listening.getsockname()[1]
        [found] = HostKubelet(ProcessTable()).listeners([port], lambda: 7)

    assert (found.port, found.pid) == (port, None)
    assert asked[0] == 7
    assert len(asked) <= 5
