"""A gRPC server on a unix socket that answers in every way there is, and clients for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio

from nodeupgrade.node.runtimes.cri.connection import OPTIONS

RUNTIME = "/runtime.v1.RuntimeService/"
BAD = b"\x08\x09\x12\x03bad"


class Runtime(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic when it runs
    """Answers each method as its name says, and remembers what was asked."""

    def __init__(self, name: str = "first") -> None:
        self.name = name
        self.knows_methods = True
        self.asked: list[tuple[str, bytes]] = []
        self.metadata: list[tuple[str, str | bytes]] = []
        self.left: float | None = None
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if not self.knows_methods:
            return None
        path = str(details.method)
        answer = getattr(self, path.rpartition("/")[2], None)
        if answer is not None:
            return grpc.stream_stream_rpc_method_handler(answer)

        async def plain(request: bytes, context: Any) -> bytes:
            self.asked.append((path, request))
            self.left = context.time_remaining()
            self.metadata = [(key, value) for key, value in context.invocation_metadata()]
            await context.send_initial_metadata((("began", self.name),))
            context.set_trailing_metadata((("ended", self.name), ("ended-bin", b"\0\xff")))
            return request

        return grpc.unary_unary_rpc_method_handler(cast("Any", plain))

    async def Fail(self, requests: Any, context: Any) -> None:  # noqa: N802
        await self._fail(requests, context)

    async def ContainerStatus(self, requests: Any, context: Any) -> None:  # noqa: N802
        await self._fail(requests, context)

    async def _fail(self, requests: Any, context: Any) -> None:
        await context.send_initial_metadata((("began", self.name),))
        trailing = (("grpc-status-details-bin", BAD), ("ended", self.name))
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "what a pity: 100 % ü", trailing)

    async def Wait(self, requests: Any, context: Any) -> None:  # noqa: N802
        await self._wait(requests, context)

    async def Status(self, requests: Any, context: Any) -> None:  # noqa: N802
        await self._wait(requests, context)

    async def _wait(self, requests: Any, context: Any) -> None:
        self.left = context.time_remaining()
        self.waiting.set()
        try:
            await self.go_on.wait()
            await context.write(b"at last")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def Count(self, requests: Any, context: Any) -> None:  # noqa: N802
        await context.send_initial_metadata((("began", self.name),))
        async for request in requests:
            for number in range(int(request)):
                await context.write(str(number).encode())
        context.set_trailing_metadata((("ended", self.name),))

    async def Add(self, requests: Any, context: Any) -> None:  # noqa: N802
        await context.write(str(sum([int(request) async for request in requests])).encode())

    async def Talk(self, requests: Any, context: Any) -> None:  # noqa: N802
        async for request in requests:
            await context.write(request.upper())

    async def Give(self, requests: Any, context: Any) -> None:  # noqa: N802
        await context.write(b"one")
        await context.abort(grpc.StatusCode.OUT_OF_RANGE, "no more")


@asynccontextmanager
async def running(socket: Path, runtime: Runtime) -> AsyncIterator[Runtime]:
    """Serve on a socket, as a runtime does: remove whatever lies there, and bind anew."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((runtime,))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield runtime
    finally:
        await server.stop(0)


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[grpc.aio.Channel]:
    """A client's channel to a socket."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        yield channel


def unary(channel: grpc.aio.Channel, method: str, request: bytes = b"", **given: Any) -> Any:
    """Make a unary call."""
    return channel.unary_unary(RUNTIME + method, None, None)(request, **given)


def stream(channel: grpc.aio.Channel, method: str, **given: Any) -> Any:
    """Make a call with streams in both directions."""
    return channel.stream_stream(RUNTIME + method, None, None)(None, **given)
