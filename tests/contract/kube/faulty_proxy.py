"""Stands between a client and a real API server, and breaks what it is told to break.

One request per connection, so that breaking one says nothing about another.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from tests.contract.kube.apiserver import ApiServer, unverified

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


@dataclass(frozen=True)
class Request:
    """What a client asks for, and its bytes as they are passed on."""

    method: str
    target: str
    raw: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def watching(self) -> bool:
        return "watch=true" in self.target


Harm: TypeAlias = Callable[["Exchange"], Awaitable[None]]
Which: TypeAlias = Callable[[Request], bool]


@dataclass
class Exchange:
    """One request on its way, and both connections."""

    request: Request
    client: Writer
    connect: Callable[[], Awaitable[tuple[Reader, Writer]]]

    async def forward(self) -> Reader:
        """Pass the request on; the answer is to be read."""
        reader, writer = await self.connect()
        writer.write(self.request.raw)
        await writer.drain()
        return reader

    async def pass_through(self) -> None:
        answer = await self.forward()
        while chunk := await answer.read(65536):
            self.client.write(chunk)
            await self.client.drain()


async def answer_is_lost(exchange: Exchange) -> None:
    """The API server does it, and nobody hears."""
    answer = await exchange.forward()
    await answer.read()


async def never_arrives(exchange: Exchange) -> None:
    """The connection breaks before the API server has heard anything."""


def answers(status: int, body: object, **headers: str) -> Harm:
    """Somebody else answers, for example a load balancer, or the API server for a reason of its own."""

    async def harm(exchange: Exchange) -> None:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Fault", "Content-Type: application/json", f"Content-Length: {len(payload)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        exchange.client.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + payload)
        await exchange.client.drain()

    return harm


def says(status: int, message: str, **headers: str) -> Harm:
    """The answer is a Status object."""
    return answers(status, {"kind": "Status", "code": status, "message": message}, **headers)


def breaks_after(size: int) -> Harm:
    """The answer breaks off after so many bytes, with a reset."""

    async def harm(exchange: Exchange) -> None:
        answer = await exchange.forward()
        with contextlib.suppress(asyncio.IncompleteReadError):
            exchange.client.write(await answer.readexactly(size))
            await exchange.client.drain()
            await asyncio.sleep(0.05)  # or the reset would overtake the bytes
        abort(exchange.client)

    return harm


def trickles(size: int, seconds: float) -> Harm:
    """The answer comes in tiny pieces."""

    async def harm(exchange: Exchange) -> None:
        answer = await exchange.forward()
        while chunk := await answer.read(size):
            exchange.client.write(chunk)
            await exchange.client.drain()
            await asyncio.sleep(seconds)

    return harm


async def is_silent(exchange: Exchange) -> None:
    """Nobody answers, and the connection stays."""
    await exchange.forward()
    await asyncio.sleep(3600)


@dataclass
class _Fault:
    which: Which
    harm: Harm
    times: int


def abort(writer: Writer) -> None:
    """Reset a connection, unless it is closed already."""
    with contextlib.suppress(AttributeError):  # which the TLS of Python 3.11.2 raises then
        writer.transport.abort()


@dataclass
class FaultyProxy:
    """Passes everything on but for the faults, each of which happens so many times."""

    server: ApiServer
    port: int = 0
    seen: list[Request] = field(default_factory=list)  # method and path of every request, in order
    harmed: list[Request] = field(default_factory=list)  # likewise, of those that went wrong
    _faults: list[_Fault] = field(default_factory=list)
    _exchanges: dict[asyncio.Task[None], set[Writer]] = field(default_factory=dict)

    def break_(self, which: Which, harm: Harm, times: int = 1) -> None:
        """Break the next requests of a kind."""
        self._faults.append(_Fault(which, harm, times))

    def heal(self) -> None:
        """Break nothing more."""
        self._faults.clear()

    def drop_all(self) -> None:
        """Reset every connection there is."""
        for writers in self._exchanges.values():
            for writer in writers:
                abort(writer)

    async def stop(self) -> None:
        """End whatever goes on."""
        await asyncio.sleep(0)  # a connection that was accepted last is known now
        left = dict(self._exchanges)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for writer in set().union(*left.values()):  # of tasks that were cancelled before they began
            abort(writer)
        await asyncio.sleep(0)

    def kubeconfig(self, user: str) -> Path:
        """Point a user here instead of at the API server."""
        config = json.loads(self.server.kubeconfig(user).read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path = self.server.directory / f"{user}-{self.port}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def accept(self, reader: Reader, client: Writer) -> None:
        """Serve one connection, in a task that ``stop`` knows from the beginning."""
        writers = {client}
        task = asyncio.ensure_future(self._serve(reader, client, writers))
        self._exchanges[task] = writers
        task.add_done_callback(self._exchanges.pop)

    async def _serve(self, reader: Reader, client: Writer, writers: set[Writer]) -> None:

        async def connect() -> tuple[Reader, Writer]:
            there, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=unverified())
            writers.add(writer)
            return there, writer

        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            exchange = Exchange(await _read(reader), client, connect)
            self.seen.append(exchange.request)
            await self._handle(exchange)
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _handle(self, exchange: Exchange) -> None:
        for fault in self._faults:
            if fault.times > 0 and fault.which(exchange.request):
                fault.times -= 1
                self.harmed.append(exchange.request)
                return await fault.harm(exchange)
        return await exchange.pass_through()


@contextlib.asynccontextmanager
async def faulty_proxy(server: ApiServer) -> AsyncIterator[FaultyProxy]:
    """Serve on loopback for as long as the context lasts."""
    proxy = FaultyProxy(server)
    listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.stop()


async def _read(reader: Reader) -> Request:
    """Read one request, and ask the API server to close the connection after its answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *headers = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    length = next((int(h.partition(":")[2]) for h in headers if h.lower().startswith("content-length:")), 0)
    kept = [header for header in headers if not header.lower().startswith(("connection:", "accept-encoding:"))]
    raw = "\r\n".join([first, *kept, "Connection: close", "", ""]).encode() + await reader.readexactly(length)
    return Request(method, target, raw)
