"""The server behind a proxy, whose socket may move and whose process may restart."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import grpc.aio

from nodeupgrade.errors import Transient
from nodeupgrade.node.runtimes.cri.connection import OPTIONS

MultiCallable: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
Inode: TypeAlias = tuple[int, int]

UNLIMITED = 2**31 - 1
UPSTREAM: tuple[tuple[str, int | str], ...] = (
    *OPTIONS,
    # Pauses between attempts to connect. gRPC's "minimum" is something else: how long one attempt may take. It stays
    # at 20 s, since a busy runtime accepts late.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.client_idle_timeout_ms", UNLIMITED),
)


@dataclass(eq=False, slots=True)
class Upstream:
    """The server's socket, wherever it is now: one channel for as long as it is the same socket.

    A channel connects to an inode, so it never follows the path to another server. A restarted server gets a new
    channel, which has no back-off to wait for. Calls under way on the old channel end as its server ends them.
    """

    find: Callable[[], Path]  # returns the path of the server's socket
    _inode: Inode | None = None
    _descriptor: int = -1
    _channel: grpc.aio.Channel | None = None
    _unary: dict[str, MultiCallable] = field(default_factory=dict)
    _retired: set[asyncio.Task[None]] = field(default_factory=set)

    def channel(self) -> grpc.aio.Channel:
        """Return the channel to the server's current socket.

        Raises:
            OSError: there is no socket.
        """
        path = self.find()
        status = path.stat()
        if self._channel is None or self._inode != (status.st_dev, status.st_ino):
            self._open(path)
        return cast("grpc.aio.Channel", self._channel)

    def unary(self, path: str) -> MultiCallable:
        """Return a unary method of the server.

        Raises:
            OSError: there is no socket.
        """
        channel = self.channel()
        if (method := self._unary.get(path)) is None:
            method = self._unary[path] = channel.unary_unary(path, None, None)
        return method

    async def ask(self, path: str, request: bytes, seconds: float) -> bytes:
        """Return the server's answer to a call of our own, within so many seconds.

        Raises:
            Transient: it does not answer, or with an error.
        """
        try:
            return await self.unary(path)(request, timeout=seconds)
        except (OSError, grpc.aio.AioRpcError) as error:
            raise Transient(f"{path} got no answer: {error}") from error

    async def close(self) -> None:
        """Close all channels, once the calls that are under way have ended."""
        self._retire()
        await asyncio.gather(*self._retired)

    def _open(self, path: Path) -> None:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self._retire()
        status = os.fstat(descriptor)
        self._inode, self._descriptor = (status.st_dev, status.st_ino), descriptor
        self._channel = grpc.aio.insecure_channel(f"unix:/proc/self/fd/{descriptor}", options=UPSTREAM)

    def _retire(self) -> None:
        channel, descriptor, self._channel = self._channel, self._descriptor, None
        self._unary = {}
        if channel is not None:
            task = asyncio.ensure_future(_drain(channel, descriptor))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)


async def _drain(channel: grpc.aio.Channel, descriptor: int) -> None:
    # Cancelled here, a call would never be answered: gRPC's server would take it for one whose client left.
    try:
        await channel.close(grace=UNLIMITED)
    finally:
        os.close(descriptor)
