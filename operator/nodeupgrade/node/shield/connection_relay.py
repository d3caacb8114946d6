"""Accepts the connections to the shield's socket, relays them byte by byte, and knows the client of each.

gRPC does not identify the client of a unix socket. So each connection is relayed over a second one, whose client
address is a name that gRPC shows with every call; the kernel identifies the process behind it (``SO_PEERCRED``). A
client that does not speak HTTP/2, and so no gRPC, is relayed to the runtime itself: CRI-O answers HTTP/1.1 on the same
socket, which kubelets use for statistics.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from secrets import token_hex

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.runtimes.socket_listener import peer_of

PREFACE = b"PRI"
"""How every HTTP/2 connection begins, and no request of HTTP/1.1."""
BACKLOG = 1024
CHUNK = 64 * 1024
RETRY_SECONDS = 0.05
CONNECT_SECONDS = 20.0
"""How long a connection waits while the server's backlog is full."""
UNKNOWN_PROCESS = "an unknown process"
DESCRIPTION_LENGTH = 80


def describe_process(processes: ProcessTable, pid: int, *, kubelet: PurePosixPath, unit: str) -> str:
    """Return the name, PID and unit of a process, such as ``crictl (process 4711 of session-3.scope)``.

    Args:
        kubelet: path of the kubelet's program.
        unit: the kubelet's unit.

    Returns:
        Empty for the kubelet: a process of its unit, or of its program, whose unit may have a control group elsewhere.
    """
    stat = processes.stat(pid)
    if stat is None:
        return UNKNOWN_PROCESS if pid <= 0 else f"a process that has ended ({pid})"
    units = processes.units(pid)
    if unit in units or processes.executable(pid) == kubelet:
        return ""
    name = "".join(letter if letter.isprintable() else "?" for letter in stat.command)
    of = f" of {units[-1]}" if units else ""
    return f"{name} (process {pid}{of})"[:DESCRIPTION_LENGTH]


@dataclass(eq=False, slots=True)
class ConnectionRelay:
    """Listens on one socket, and relays connections to the server at another."""

    listen: Path  # path to listen on; whatever socket is there is replaced
    server: Path  # path of the gRPC server's socket, which no other client should be able to reach
    runtime: Callable[[], Path]  # returns the path of the runtime's socket, for connections without gRPC
    describe: Callable[[int], str]  # called with the PID of each client when it connects; returns its description
    _clients: dict[str, str] = field(default_factory=dict)
    _connected: set[asyncio.StreamWriter] = field(default_factory=set)
    _listener: asyncio.Server | None = None
    _own: tuple[int, int] | None = None

    async def open(self) -> None:
        """Accept connections from now on.

        Raises:
            OSError: it cannot listen.
        """
        self._listener = await asyncio.start_unix_server(self._relay, str(self.listen), backlog=BACKLOG)
        self._own = self._inode()

    def client(self, peer: str) -> str | None:
        """Return a client's description, by the address that gRPC shows; ``None`` if it did not connect here."""
        return self._clients.get(peer)

    def close(self) -> None:
        """Accept no more connections, and remove the socket; open connections stay."""
        if self._listener is not None:
            self._listener.close()
        if self._own is not None and self._own == self._inode():
            self.listen.unlink(missing_ok=True)

    def close_connections(self) -> None:
        """End every connection, once what was sent has been delivered."""
        for writer in list(self._connected):
            writer.close()

    def remove_server(self) -> None:
        """Remove the server's socket and its directory, which systemd leaves if the unit's file was deleted."""
        self.server.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.server.parent.rmdir()

    def _inode(self) -> tuple[int, int] | None:
        try:
            status = self.listen.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection until both sides have ended or one is lost."""
        with contextlib.suppress(OSError), self._closing(writer):
            description = self.describe(peer_of(writer.get_extra_info("socket")))
            if not (beginning := await _beginning(reader)):  # the client only checked that the socket is served
                return
            server = self.server if PREFACE.startswith(beginning) else self.runtime()
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            # The kernel would choose one of a million names, which any user can have bound before.
            connection.bind(f"\0nodeupgrade-{token_hex(16)}")
            name = f"unix-abstract:{connection.getsockname()[1:].decode()}"
            self._clients[name] = description
            try:
                answers, requests = await _connect(connection, server)
                with self._closing(requests):
                    requests.write(beginning)
                    await _both(_copy(reader, requests), _copy(answers, writer))
            finally:
                del self._clients[name]

    @contextlib.contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._connected.add(writer)
        try:
            yield
        finally:
            self._connected.discard(writer)
            writer.close()


async def _beginning(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes, which identify the protocol; fewer if no more are sent."""
    try:
        return await reader.readexactly(len(PREFACE))
    except asyncio.IncompleteReadError as error:
        return error.partial


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy everything at the pace of the slower side, and then the end of the stream; answers may still come."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _both(*ways: Coroutine[None, None, None]) -> None:
    """Wait until both have ended, or one has failed, which makes the connection useless."""
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for way in ways:
                group.create_task(way)


async def _connect(connection: socket.socket, server: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and wait while the server's backlog is full; asyncio would take that for connected."""
    end = asyncio.get_running_loop().time() + CONNECT_SECONDS
    try:
        while True:
            try:
                connection.connect(str(server))
                return await asyncio.open_unix_connection(sock=connection)
            except BlockingIOError:
                if asyncio.get_running_loop().time() > end:
                    raise
            await asyncio.sleep(RETRY_SECONDS)
    except BaseException:
        connection.close()
        raise
