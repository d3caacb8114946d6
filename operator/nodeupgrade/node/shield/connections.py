"""The door of the shield: accepts connections, and knows who made each.

gRPC tells nothing about a client of a unix socket. So each connection that is accepted here is passed on, byte by
byte, over a second one, whose client has a name: gRPC shows that name with every call. Who is behind it, the kernel
says (``SO_PEERCRED``). A client that speaks no HTTP/2, and so no gRPC, is passed on to the runtime itself: CRI-O
answers HTTP/1.1 on the same socket, which kubelets use for statistics.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nodeupgrade.node.runtimes.socket_listener import peer_of

PREFACE = b"PRI"
"""How every HTTP/2 connection begins, and no request of HTTP/1.1."""
BACKLOG = 1024
CHUNK = 64 * 1024
BUSY_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
"""How long a connection waits for the server behind the door."""


@dataclass(eq=False, slots=True)
class Front:
    """Listens on one socket, and passes connections on to the server at another."""

    listen: Path  # path to listen on; whatever socket is there is replaced
    server: Path  # path of the server's socket, which nobody else should be able to reach
    runtime: Callable[[], Path]  # returns the path of the runtime's socket, for connections without gRPC
    met: Callable[[int], str]  # called with the PID of each client, as of when it connected; returns who that is
    _callers: dict[str, str] = field(default_factory=dict)
    _connected: set[asyncio.StreamWriter] = field(default_factory=set)
    _accepting: asyncio.Server | None = None
    _own: tuple[int, int] | None = None

    async def open(self) -> None:
        """Accept connections from now on.

        Raises:
            OSError: it cannot listen.
        """
        self._accepting = await asyncio.start_unix_server(self._pass_on, str(self.listen), backlog=BACKLOG)
        self._own = self._inode()

    def caller(self, peer: str) -> str | None:
        """Return who a client is, by the name that gRPC shows; ``None`` if it came by another way."""
        return self._callers.get(peer)

    def close(self) -> None:
        """Accept no more, and remove the socket; what is connected stays."""
        if self._accepting is not None:
            self._accepting.close()
        if self._own is not None and self._own == self._inode():
            self.listen.unlink(missing_ok=True)

    def hang_up(self) -> None:
        """End every connection, once what was sent has been delivered."""
        for writer in list(self._connected):
            writer.close()

    def clear(self) -> None:
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

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what one client and its server say, until both have ended or one is lost."""
        with contextlib.suppress(OSError), self._closing(writer):
            caller = self.met(peer_of(writer.get_extra_info("socket")))
            if not (beginning := await _beginning(reader)):  # it only asked whether anybody listens
                return
            server = self.server if PREFACE.startswith(beginning) else self.runtime()
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            connection.bind("")  # the kernel chooses a name
            name = f"unix-abstract:{connection.getsockname()[1:].decode()}"
            self._callers[name] = caller
            try:
                answers, requests = await _reached(connection, server)
                with self._closing(requests):
                    requests.write(beginning)
                    await _both(_copied(reader, requests), _copied(answers, writer))
            finally:
                del self._callers[name]

    @contextlib.contextmanager
    def _closing(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._connected.add(writer)
        try:
            yield
        finally:
            self._connected.discard(writer)
            writer.close()


async def _beginning(reader: asyncio.StreamReader) -> bytes:
    """Return the first bytes, by which protocols are told apart; fewer if no more are sent."""
    try:
        return await reader.readexactly(len(PREFACE))
    except asyncio.IncompleteReadError as error:
        return error.partial


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on everything at the pace of the slower side, and then that there is no more; answers may still come."""
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _both(*ways: Coroutine[None, None, None]) -> None:
    """Wait until both have ended, or one has failed: then the connection is of no use any more."""
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for way in ways:
                group.create_task(way)


async def _reached(connection: socket.socket, server: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect, and wait for as long as the server's backlog is full; asyncio would take that for connected."""
    end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    try:
        while True:
            try:
                connection.connect(str(server))
                return await asyncio.open_unix_connection(sock=connection)
            except BlockingIOError:
                if asyncio.get_running_loop().time() > end:
                    raise
            await asyncio.sleep(BUSY_SECONDS)
    except BaseException:
        connection.close()
        raise
