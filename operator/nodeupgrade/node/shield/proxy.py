"""A gRPC proxy between two unix sockets: passes on every call as bytes, except those that a judge refuses.

It treats an unknown method as a stream in both directions, which any call is on the wire. Only known unary methods,
which kubelets call all the time, take a shorter way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import grpc.aio

from nodeupgrade.node.runtimes.cri.connection import OPTIONS
from nodeupgrade.node.shield.upstream import Upstream

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
T = TypeVar("T")
Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
Answers: TypeAlias = "grpc.aio.UnaryStreamCall[bytes, bytes] | grpc.aio.StreamStreamCall[bytes, bytes]"

OWN_METADATA = frozenset({"user-agent"})
"""Metadata that every gRPC client sets itself."""
LOOK_SECONDS = 0.05
EARLY_SECONDS = 0.02
"""How long the proxy waits to see whether the client of an unknown method sends one message only."""
DOWNSTREAM: tuple[tuple[str, int | str], ...] = (
    *OPTIONS,
    # Never close a connection because of pings: the runtime decides what a client may do.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer to a call that does not reach the server."""

    code: grpc.StatusCode
    details: str


class CallJudge(Protocol):
    """Decides which calls are passed on."""

    def unary(self, path: str) -> bool:
        """Report whether a method is known to have one request and one answer."""

    def concerns(self, path: str) -> bool:
        """Report whether judge() must see the calls of a method; such a method must be unary."""

    async def judge(self, path: str, request: bytes, peer: str) -> Rejection | None:
        """Return the answer to a call that is refused; ``None`` for one that is passed on.

        Args:
            peer: the address of the client's socket, as gRPC names it.
        """

    def awaited(self, peer: str) -> bool:
        """Report whether stop() waits for the calls of a client to end."""


class Proxy(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic when it runs
    """Serves on one socket what a server serves on another.

    Args:
        socket: path to listen on; whatever socket is there is replaced.
        upstream: returns the path of the server's socket.
        judge: sees the calls that concern it before the server does.
    """

    def __init__(self, socket: Path, upstream: Callable[[], Path], judge: CallJudge) -> None:
        self._upstream = Upstream(upstream)
        self._judge = judge
        self._awaited = 0
        self._over = asyncio.Event()
        self._handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {}
        self._server = grpc.aio.server(options=DOWNSTREAM)
        self._server.add_generic_rpc_handlers((self,))
        if not self._server.add_insecure_port(f"unix:{socket}"):
            raise OSError(f"cannot listen on {socket}")

    async def start(self) -> None:
        """Accept calls from now on."""
        await self._server.start()

    async def stop(self, patience: float, grace: float) -> None:
        """Accept no more calls, and serve those under way to their end.

        Args:
            patience: seconds to wait for calls that the judge reports as awaited.
            grace: seconds that the others, such as streams, which may have no end, have after that.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        # Once: gRPC crashes if stop() is called a second time.
        ending = asyncio.ensure_future(self._server.stop(patience + grace))
        while self._awaited and loop.time() < end:  # noqa: ASYNC110  # simpler than an event
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.wait((ending,), timeout=grace)
        self._over.set()
        await ending
        await self._upstream.close()

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Return the handler of a method, for gRPC."""
        path = str(details.method)
        if (handler := self._handlers.get(path)) is None:
            handler = self._handlers[path] = self._handler(path)
        return handler

    def _handler(self, path: str) -> "grpc.RpcMethodHandler[bytes, bytes]":
        judged = self._judge.concerns(path)
        if not (judged or self._judge.unary(path)):
            return grpc.stream_stream_rpc_method_handler(_on(self._stream, path))

        async def unary(request: bytes, context: Context) -> bytes:
            peer = str(context.peer())
            awaited = self._judge.awaited(peer)
            self._awaited += awaited
            try:
                if judged and (refusal := await self._judge.judge(path, request, peer)) is not None:
                    await context.abort(refusal.code, refusal.details)
                passed = self._pass_on(path, request, context)
                return await (passed if awaited else self._while_serving(passed, context))
            finally:
                self._awaited -= awaited

        return grpc.unary_unary_rpc_method_handler(cast("Any", unary))

    async def _pass_on(self, path: str, request: bytes, context: Context) -> bytes:
        try:
            method = self._upstream.unary(path)
        except OSError as error:
            return await _no_server(context, error)
        call = method(request, timeout=context.time_remaining(), metadata=_metadata(context.invocation_metadata()))
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            if initial := _metadata(error.initial_metadata()):
                await context.send_initial_metadata(initial)
            return await _abort(context, error)
        if initial := _metadata(await call.initial_metadata()):
            await context.send_initial_metadata(initial)
        if trailing := _metadata(await call.trailing_metadata()):
            context.set_trailing_metadata(trailing)
        return answer

    async def _stream(self, path: str, requests: AsyncIterator[bytes], context: Context) -> None:
        source = _Requests(requests)
        try:
            await self._while_serving(self._stream_from(source, path, context), context)
        except grpc.aio.AioRpcError as error:
            await _abort(context, error)
        finally:
            source.close()

    async def _while_serving(self, work: Coroutine[Any, Any, T], context: Context) -> T:
        """Await work, or abort the call when the proxy serves no more calls: then the client has to connect again."""
        task, over = asyncio.ensure_future(work), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((task, over), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the shield has ended; connect again")
            return task.result()
        finally:
            over.cancel()
            task.cancel()

    async def _stream_from(self, source: "_Requests", path: str, context: Context) -> None:
        metadata = _metadata(context.invocation_metadata())
        only = await source.only()
        try:
            channel = self._upstream.channel()
        except OSError as error:
            await _no_server(context, error)
            return
        if only is not None:
            once = channel.unary_stream(path, None, None)
            await _answer(once(only, timeout=context.time_remaining(), metadata=metadata), context)
            return
        often = channel.stream_stream(path, None, None)
        call = often(None, timeout=context.time_remaining(), metadata=metadata)
        sending = asyncio.ensure_future(_send(source, call))
        try:
            await _answer(call, context)
        finally:
            sending.cancel()


@dataclass(eq=False, slots=True)
class _Requests:
    """The messages of a client."""

    messages: AsyncIterator[bytes]  # as gRPC gives them
    _next: asyncio.Task[bytes | None] | None = None
    _early: list[bytes | None] = field(default_factory=list)

    async def only(self) -> bytes | None:
        """Return the message if the client sent exactly one, and at once; ``None`` otherwise.

        If a server fails before it has read a stream, the client sees the error of sending instead of the server's.
        """
        while len(self._early) < 2 and None not in self._early:
            self._next = self._next or asyncio.ensure_future(self._receive())
            if not (await asyncio.wait((self._next,), timeout=EARLY_SECONDS))[0]:
                return None
            self._early.append(self._next.result())
            self._next = None
        return self._early[0] if self._early[1:] == [None] else None

    async def next(self) -> bytes | None:
        """Return the next message; ``None`` at the end."""
        if self._early:
            return self._early.pop(0)
        self._next = self._next or asyncio.ensure_future(self._receive())
        message = await self._next
        self._next = None
        return message

    def close(self) -> None:
        """Read no more."""
        if self._next is not None:
            self._next.cancel()

    async def _receive(self) -> bytes | None:
        return await anext(self.messages, None)


async def _answer(call: Answers, context: Context) -> None:
    """Pass on the server's answers and metadata."""
    try:
        await context.send_initial_metadata(_metadata(await call.initial_metadata()))
        async for message in call:
            await context.write(message)
        context.set_trailing_metadata(_metadata(await call.trailing_metadata()))
    finally:
        call.cancel()


def _on(method: Callable[[str, Any, Any], Coroutine[Any, Any, None]], path: str) -> Any:
    async def stream(requests: AsyncIterator[bytes], context: Context) -> None:
        await method(path, requests, context)

    return stream


async def _send(source: _Requests, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
    # A call that is over takes no more messages; its answer shows how it ended.
    with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
        while (message := await source.next()) is not None:
            await call.write(message)
        await call.done_writing()


async def _no_server(context: Context, error: OSError) -> bytes:
    await context.abort(grpc.StatusCode.UNAVAILABLE, f"the runtime has no socket: {error}")


async def _abort(context: Context, error: grpc.aio.AioRpcError) -> bytes:
    await context.abort(error.code(), error.details() or "", _metadata(error.trailing_metadata()))


def _metadata(given: Any) -> Metadata:
    return tuple((key, value) for key, value in given or () if key not in OWN_METADATA)
