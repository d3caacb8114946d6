"""Who calls the shield: the kubelet, or somebody else. Only the shield's own process imports this package."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from nodeupgrade.adapters.proc import ProcessTable, credentials

# Says who a process is, for people.

LENGTH = 80
UNKNOWN = "an unknown process"


def described(processes: ProcessTable, pid: int, *, kubelet: PurePosixPath, unit: str) -> str:
    """Return the name, PID and unit of a process, such as ``crictl (process 4711 of session-3.scope)``.

    Args:
        kubelet: path of the kubelet's program.
        unit: the kubelet's unit.

    Returns:
        Empty for the kubelet: a process of its unit, or of its program, whose unit may have a control group elsewhere.
    """
    stat = processes.stat(pid)
    if stat is None:
        return UNKNOWN if pid <= 0 else f"a process that has ended ({pid})"
    units = processes.units(pid)
    if unit in units or processes.executable(pid) == kubelet:
        return ""
    name = "".join(letter if letter.isprintable() else "?" for letter in stat.command)
    of = f" of {units[-1]}" if units else ""
    return f"{name} (process {pid}{of})"[:LENGTH]


# The door of the shield: accepts connections, and knows who made each.
#
# gRPC tells nothing about a client of a unix socket. So each connection that is accepted here is passed on, byte by
# byte, over a second one, whose client has a name: gRPC shows that name with every call. Who is behind it, the kernel
# says (``SO_PEERCRED``). A client that speaks no HTTP/2, and so no gRPC, is passed on to the runtime itself: CRI-O
# answers HTTP/1.1 on the same socket, which kubelets use for statistics.

PREFACE = b"PRI"
"""How every HTTP/2 connection begins, and no request of HTTP/1.1."""
BACKLOG = 1024
BUSY_SECONDS = 0.05
PATIENCE_SECONDS = 20.0
"""How long a connection waits for the server behind the door."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that made a connection, at that time."""

    pid: int  # in our PID namespace; 0 for a process outside of it
    uid: int


class Front:
    """Listens on one socket, and passes connections on to the server at another.

    Args:
        listen: path to listen on; whatever socket is there is replaced.
        server: path of the server's socket, which nobody else should be able to reach.
        runtime: returns the path of the runtime's socket, for connections without gRPC.
        met: called with the credentials of each client; returns who that is.
    """

    def __init__(self, listen: Path, server: Path, runtime: Callable[[], Path], met: Callable[[Peer], str]) -> None:
        self._listen = listen
        self.server = server
        self._runtime = runtime
        self._met = met
        self._callers: dict[str, str] = {}
        self._sides: set[_Side] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Server | None = None
        self._own: tuple[int, int] | None = None

    async def open(self) -> None:
        """Accept connections from now on.

        Raises:
            OSError: it cannot listen.
        """
        loop = asyncio.get_running_loop()
        self._accepting = await loop.create_unix_server(self._accept, str(self._listen), backlog=BACKLOG)
        self._own = self._inode()

    def caller(self, peer: str) -> str | None:
        """Return who a client is, by the name that gRPC shows; ``None`` if it came by another way."""
        return self._callers.get(peer)

    def close(self) -> None:
        """Accept no more, and remove the socket; what is connected stays."""
        if self._accepting is not None:
            self._accepting.close()
        if self._own is not None and self._own == self._inode():
            self._listen.unlink(missing_ok=True)

    def hang_up(self) -> None:
        """End every connection, once what was sent has been delivered."""
        for side in list(self._sides):
            side.end()

    def clear(self) -> None:
        """Remove the server's socket and its directory, which systemd leaves if the unit's file was deleted."""
        self.server.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.server.parent.rmdir()

    def _inode(self) -> tuple[int, int] | None:
        try:
            status = self._listen.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _accept(self) -> "_Side":
        outer = _Side(self._sides)
        outer.connected = lambda: self._pass_on(outer)
        return outer

    def _pass_on(self, outer: "_Side") -> None:
        task = asyncio.ensure_future(self._connect(outer, self._met(Peer(*credentials(outer.socket)))))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, outer: "_Side", caller: str) -> None:
        if not (beginning := await outer.beginning()):  # it only asked whether anybody listens
            outer.end()
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        connection.bind("")  # the kernel chooses a name
        name = f"unix-abstract:{connection.getsockname()[1:].decode()}"
        self._callers[name] = caller
        try:
            await _reach(connection, self.server if PREFACE.startswith(beginning) else self._runtime())
            inner = _Side(self._sides)
            inner.lost = lambda: self._callers.pop(name, None)
            await asyncio.get_running_loop().create_unix_connection(lambda: inner, sock=connection)
            outer.join(inner)
        except OSError:
            self._callers.pop(name, None)
            connection.close()
            outer.end()


async def _reach(connection: socket.socket, server: Path) -> None:
    end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while True:
        try:
            return connection.connect(str(server))
        except BlockingIOError:  # its backlog is full
            if asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(BUSY_SECONDS)


class _Side(asyncio.Protocol):
    """One of two connections, whose bytes go to the other one.

    Attributes:
        connected: called once it is connected.
        lost: called when it has ended.
        other: the other one; ``None`` until they are joined.
        ended: whether its client sends no more.
    """

    def __init__(self, all_sides: "set[_Side]") -> None:
        self.connected: Callable[[], object] = lambda: None
        self.lost: Callable[[], object] = lambda: None
        self._all = all_sides
        self.other: _Side | None = None
        self._transport: asyncio.Transport | None = None
        self._early = bytearray()
        self._begun = asyncio.Event()
        self.ended = False

    @property
    def socket(self) -> socket.socket:
        """The connection."""
        return cast("socket.socket", self.transport.get_extra_info("socket"))

    @property
    def transport(self) -> asyncio.Transport:
        """Its transport."""
        if self._transport is None:
            raise RuntimeError("it is not connected yet")
        return self._transport

    async def beginning(self) -> bytes:
        """Return the first bytes, by which protocols are told apart; fewer if no more are sent."""
        self.transport.resume_reading()
        await self._begun.wait()
        self.transport.pause_reading()
        return bytes(self._early[: len(PREFACE)])

    def join(self, other: "_Side") -> None:
        """Pass on to the other connection, in both directions, unless this one has ended meanwhile."""
        if self.transport.is_closing():
            other.end()
            return
        self.other, other.other = other, self
        if self._early:
            other.transport.write(bytes(self._early))
            self._early.clear()
        if self.ended:
            self.eof_received()
        self.transport.resume_reading()
        other.transport.resume_reading()

    def end(self) -> None:
        """End it, once what was sent has been delivered."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read nothing until somebody asks for it."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()
        self._all.add(self)
        self.connected()

    def data_received(self, data: bytes) -> None:
        """Pass it on; what comes before there is another one is kept (a pause may begin late in asyncio)."""
        if self.other is None:
            self._early += data
            if len(self._early) >= len(PREFACE):
                self._begun.set()
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Let the other one send no more for now."""
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the other one send again."""
        if self.other is not None:
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        """Let the other one know; answers may still come, unless that has ended before."""
        self.ended = True
        self._begun.set()
        if self.other is not None and self.other.ended:
            self.other.end()
            return False
        if self.other is not None:
            with contextlib.suppress(OSError):
                self.other.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - for the other one it is an end, too
        """End the other one, too."""
        self._all.discard(self)
        self._begun.set()
        self.lost()
        if self.other is not None:
            self.other.end()
