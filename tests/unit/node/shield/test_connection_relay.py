"""Tests for the relay of the shield's connections: every byte is passed on, at the pace of the slower side."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.shield.connection_relay import UNKNOWN_PROCESS, ConnectionRelay, describe_process

SIZE = 8 * 1024 * 1024
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def relaying(directory: Path, serve: object, met: list[int] | None = None) -> AsyncIterator[ConnectionRelay]:
    """A door in relay of a server."""
    server = await asyncio.start_unix_server(serve, str(directory / "server"))  # type: ignore[arg-type]

    def meet(peer: int) -> str:
        if met is not None:
            met.append(peer)
        return f"process {peer}"

    relay = ConnectionRelay(directory / "relay", directory / "server", lambda: directory / "runtime", meet)
    await relay.open()
    try:
        yield relay
    finally:
        relay.close()
        relay.close_connections()
        server.close()


async def test_everything_arrives_in_both_directions_and_an_end_is_passed_on(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = await reader.read(-1)
        writer.write(got)
        await writer.drain()
        writer.close()

    async with relaying(tmp_path, echo):
        for sent in (b"", b"P", b"PR", PREFACE, PREFACE + os.urandom(SIZE)):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
            writer.write(sent)
            writer.write_eof()
            assert await reader.read(-1) == sent
            writer.close()


async def test_who_reads_slowly_is_not_sent_more(tmp_path: Path) -> None:
    taken = asyncio.Event()

    async def hear_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await taken.wait()
        writer.write(str(len(await reader.read(-1))).encode())
        writer.close()

    async with relaying(tmp_path, hear_late):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
        writer.write(PREFACE.ljust(SIZE))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.5)
        taken.set()
        await writer.drain()
        writer.write_eof()
        assert await reader.read(-1) == str(SIZE).encode()
        writer.close()


async def test_the_server_sees_a_name_by_which_the_caller_is_known(tmp_path: Path) -> None:
    names: asyncio.Queue[str] = asyncio.Queue()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await names.put("unix-abstract:" + writer.get_extra_info("peername")[1:].decode())
        await reader.read(-1)
        writer.close()

    met: list[int] = []
    async with relaying(tmp_path, note, met) as relay:
        _, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
        writer.write(PREFACE)
        name = await names.get()
        assert met == [os.getpid()]
        assert (relay.client(name), relay.client("unix:")) == (f"process {os.getpid()}", None)
        writer.close()
        while relay.client(name) is not None:  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.01)


async def test_who_has_taken_every_name_that_the_kernel_chooses_keeps_nobody_from_the_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are a million of them in each network namespace, which is the node's: any user may bind them all."""

    class Socket(socket.socket):
        def bind(self, address: Any, /) -> None:
            if not address:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().bind(address)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(-1))
        writer.close()

    async with relaying(tmp_path, echo):
        monkeypatch.setattr(socket, "socket", Socket)
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
            writer.write(PREFACE)
            writer.write_eof()
            assert await reader.read(-1) == PREFACE
            writer.close()


async def test_without_a_server_the_client_is_told(tmp_path: Path) -> None:
    async with relaying(tmp_path, lambda *_: None):
        (tmp_path / "server").unlink()
        for greeting in (PREFACE, b"GET /info HTTP/1.1\r\n"):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
            writer.write(greeting)
            assert await asyncio.wait_for(reader.read(-1), 10) == b""
            writer.close()


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["at once", "byte by byte"])
@pytest.mark.parametrize("request_line", [b"GET /info HTTP/1.1", b"POST / HTTP/1.1", b"PUT / HTTP/1.1", b"G"])
async def test_what_is_no_grpc_is_passed_on_to_the_runtime(tmp_path: Path, request_line: bytes, pause: float) -> None:
    """cAdvisor asks CRI-O over HTTP/1.1, on the same socket."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"seen: " + await reader.read(-1))
        writer.close()

    server = await asyncio.start_unix_server(answer, str(tmp_path / "runtime"))
    async with relaying(tmp_path, lambda *_: pytest.fail("this is not gRPC")):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
        pieces = [bytes([byte]) for byte in request_line] if pause else [request_line]
        for piece in (*pieces[:5], b"".join(pieces[5:])):
            writer.write(piece)
            await asyncio.sleep(pause)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(-1), 10) == b"seen: " + request_line
        writer.close()
    server.close()


async def test_who_connects_and_leaves_is_passed_on_to_nobody(tmp_path: Path) -> None:
    """As whoever only asks whether anybody listens."""
    async with relaying(tmp_path, lambda *_: pytest.fail("nothing was sent")) as relay:
        for _ in range(3):
            _, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
            writer.close()
            await writer.wait_closed()
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "relay"))
        told = asyncio.ensure_future(reader.read(-1))
        while not told.done():
            relay.close_connections()  # as soon as it was accepted
            await asyncio.sleep(0.01)
        assert told.result() == b""
        writer.close()
        await writer.wait_closed()


async def test_a_relay_that_closes_removes_its_own_socket_only(tmp_path: Path) -> None:
    async with relaying(tmp_path, lambda *_: None):
        (tmp_path / "relay").unlink()
        (tmp_path / "relay").touch()
    assert (tmp_path / "relay").exists()
    (tmp_path / "relay").unlink()
    (tmp_path / "server").unlink(missing_ok=True)
    async with relaying(tmp_path, lambda *_: None):
        pass
    assert not (tmp_path / "relay").exists()


@pytest.mark.parametrize(
    ("pid", "group", "expected"),
    [
        (7, "1:name=systemd:/user.slice/session-3.scope\n0::/\n", "crictl (process 7 of session-3.scope)"),
        (7, "0::/\n", "crictl (process 7)"),
        (7, "0::/system.slice/kubelet.service\n", ""),
        (7, "4:cpu:/kubelet.service\n1:name=systemd:/other.slice\n", "crictl (process 7)"),
        (8, "", "a process that has ended (8)"),
        (0, "", UNKNOWN_PROCESS),
    ],
)
def test_a_caller_is_describe_process(tmp_path: Path, pid: int, group: str, expected: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (crictl) S 1" + " 0" * 20)
    (tmp_path / "7/cgroup").write_text(group)
    processes, program = ProcessTable(tmp_path), PurePosixPath("/usr/bin/kubelet")
    assert describe_process(processes, pid, kubelet=program, unit="kubelet.service") == expected


def test_the_program_of_the_kubelet_is_the_kubelet_wherever_its_control_group_is(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text("7 (kubelet) S 1" + " 0" * 20)
    (tmp_path / "7/exe").symlink_to("/usr/bin/kubelet")
    program = PurePosixPath("/usr/bin/kubelet")
    assert describe_process(ProcessTable(tmp_path), 7, kubelet=program, unit="kubelet.service") == ""
