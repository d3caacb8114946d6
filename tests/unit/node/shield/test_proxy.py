"""The proxy between two gRPC peers that must not notice it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from nodeupgrade.node.shield import proxy
from nodeupgrade.node.shield.call_requests import is_unary
from nodeupgrade.node.shield.proxy import Proxy, Rejection
from nodeupgrade.node.shield.upstream import Upstream
from tests.builders.runtime_server import BAD, RUNTIME, Runtime, connected, running, stream, unary

BOTH_WAYS = pytest.mark.parametrize("method", ["Version", "Unheard"])
"""A method that is known to be unary, and one that may be anything."""


class Judge:
    """Refuses StopContainer once it is told to."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.verdict: asyncio.Future[Rejection | None] = asyncio.get_running_loop().create_future()

    def unary(self, path: str) -> bool:
        return is_unary(path)

    def concerns(self, path: str) -> bool:
        return path.endswith("/StopContainer")

    def awaited(self, peer: str) -> bool:
        return not peer.endswith("other")

    async def judge(self, path: str, request: bytes, peer: str) -> Rejection | None:
        self.seen.append(request)
        return await asyncio.shield(self.verdict)


class Rig:
    """A runtime, the proxy before it, and a client of the proxy."""

    def __init__(self, directory: Path) -> None:
        self.socket, self.upstream = directory / "proxy.sock", directory / "runtime.sock"
        self.judge = Judge()
        self.runtime = Runtime()
        self.proxy = Proxy(self.socket, lambda: self.upstream, self.judge)
        self.channel: grpc.aio.Channel

    @asynccontextmanager
    async def up(self) -> AsyncIterator["Rig"]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(self.upstream, self.runtime))
            await self.proxy.start()
            stack.push_async_callback(self.proxy.stop, 0, 0)
            self.channel = await stack.enter_async_context(connected(self.socket))
            yield self


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with Rig(tmp_path).up() as rig:
        yield rig


async def failure(call: Awaitable[Any]) -> Any:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def until(true: Callable[[], object]) -> None:
    """Wait for what no event announces."""
    while not true():  # noqa: ASYNC110  # it is in the file system, or in another process
        await asyncio.sleep(0.001)


def held_below(directory: Path) -> list[Path]:
    """Return the files in a directory that this process has open."""
    held = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # gRPC's threads close descriptors of their own meanwhile
            held.append(link.readlink())
    return sorted(file for file in held if file.is_relative_to(directory))


@BOTH_WAYS
async def test_a_unary_call_arrives_as_it_was_made(rig: Rig, method: str) -> None:
    sent = (("from", "kubelet"), ("trace-bin", b"\0\x01\xff"))
    call = unary(rig.channel, method, b"\x0a\x00", metadata=sent, timeout=110)

    assert await call == b"\x0a\x00"
    assert dict(await call.initial_metadata()) == {"began": "first"}
    assert dict(await call.trailing_metadata()) == {"ended": "first", "ended-bin": b"\0\xff"}
    assert rig.runtime.asked == [(RUNTIME + method, b"\x0a\x00")]
    assert set(sent) <= set(rig.runtime.metadata)
    assert [key for key, _ in rig.runtime.metadata].count("user-agent") == 1
    assert rig.runtime.left is not None
    assert 100 < rig.runtime.left < 111, "gRPC rounds up"


@BOTH_WAYS
async def test_without_a_deadline_there_is_none(rig: Rig, method: str) -> None:
    await unary(rig.channel, method)
    assert rig.runtime.left is None


@pytest.mark.parametrize("method", ["ContainerStatus", "Fail"])
async def test_an_error_arrives_with_all_its_details(rig: Rig, method: str) -> None:
    error = await failure(unary(rig.channel, method))

    assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "what a pity: 100 % ü")
    assert dict(error.trailing_metadata()) == {"grpc-status-details-bin": BAD, "ended": "first"}


async def test_an_unknown_method_is_unimplemented(rig: Rig) -> None:
    call = rig.channel.unary_unary("/other.Service/Fail", None, None)(b"")
    assert (await failure(call)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    rig.runtime.knows_methods = False
    for method in ("Version", "Unheard"):
        assert (await failure(unary(rig.channel, method))).code() is grpc.StatusCode.UNIMPLEMENTED


async def test_the_server_streams(rig: Rig) -> None:
    call = rig.channel.unary_stream(RUNTIME + "Count", None, None)(b"1000")

    assert dict(await call.initial_metadata()) == {"began": "first"}
    assert [int(answer) async for answer in call] == list(range(1000))
    assert dict(await call.trailing_metadata()) == {"ended": "first"}


async def test_the_client_streams(rig: Rig) -> None:
    async def numbers() -> AsyncIterator[bytes]:
        for number in range(1000):
            yield str(number).encode()

    assert await rig.channel.stream_unary(RUNTIME + "Add", None, None)(numbers()) == b"499500"


async def test_both_stream_in_turns(rig: Rig) -> None:
    call = stream(rig.channel, "Talk")
    for word in (b"one", b"two", b"three"):
        await call.write(word)
        assert await call.read() == word.upper()
    await call.done_writing()
    assert await call.code() is grpc.StatusCode.OK


async def test_a_stream_that_fails_gives_what_came_before(rig: Rig) -> None:
    call = rig.channel.unary_stream(RUNTIME + "Give", None, None)(b"")
    assert await call.read() == b"one"
    assert (await failure(call.read())).details() == "no more"


@pytest.mark.parametrize("method", ["Status", "Wait"])
async def test_a_deadline_ends_the_call_on_both_sides(rig: Rig, method: str) -> None:
    await unary(rig.channel, "Version")  # so that the connections are there
    error = await failure(unary(rig.channel, method, timeout=1))

    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert rig.runtime.left is not None
    assert rig.runtime.left < 2
    await rig.runtime.cancelled.wait()


@pytest.mark.parametrize("method", ["Status", "Wait"])
async def test_a_client_that_cancels_ends_the_call_on_the_server(rig: Rig, method: str) -> None:
    call = unary(rig.channel, method)
    await rig.runtime.waiting.wait()
    call.cancel()
    await rig.runtime.cancelled.wait()


@pytest.mark.parametrize("method", ["Status", "Wait"])
async def test_a_server_that_goes_away_ends_the_call_on_the_client(tmp_path: Path, method: str) -> None:
    rig = Rig(tmp_path)
    await rig.proxy.start()
    async with connected(rig.socket) as channel:
        async with running(rig.upstream, rig.runtime):
            call = unary(channel, method)
            call.add_done_callback(lambda _call: None)
            await rig.runtime.waiting.wait()
        assert (await failure(call)).code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    await rig.proxy.stop(0, 0)


@BOTH_WAYS
async def test_messages_may_be_big(rig: Rig, method: str) -> None:
    message = b"m" * (60 * 1024 * 1024)
    assert await unary(rig.channel, method, message) == message


@BOTH_WAYS
async def test_two_hundred_calls_at_once(rig: Rig, method: str) -> None:
    requests = [str(number).encode() for number in range(200)]
    assert await asyncio.gather(*(unary(rig.channel, method, request) for request in requests)) == requests


async def test_a_server_that_was_restarted_is_found_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.proxy.start()
    async with connected(rig.socket) as channel:
        for method in ("Version", "Unheard"):
            error = await failure(unary(channel, method))
            assert (error.code(), "no socket" in (error.details() or "")) == (grpc.StatusCode.UNAVAILABLE, True)
        async with running(rig.upstream, rig.runtime):
            await unary(channel, "Version")
            rig.upstream.rename(tmp_path / "kept.sock")  # so that the first one does not remove the second one's
        async with running(rig.upstream, Runtime("second")):
            for method in ("Version", "Unheard"):
                call = unary(channel, method)
                await call
                assert dict(await call.initial_metadata()) == {"began": "second"}
    await rig.proxy.stop(0, 0)


async def test_a_connection_is_to_the_socket_that_was_found(tmp_path: Path) -> None:
    """By the time it is made, the path may lead to the proxy itself; that would be a loop."""
    path = tmp_path / "runtime.sock"
    upstream = Upstream(lambda: path)
    async with running(path, Runtime("first")):
        channel = upstream.channel()
        assert upstream.channel() is channel
        path.rename(tmp_path / "kept.sock")
        async with running(path, Runtime("second")):
            call = unary(channel, "Version")
            await call
            assert dict(await call.initial_metadata()) == {"began": "first"}
            assert upstream.channel() is not channel
            await upstream.close()


@BOTH_WAYS
async def test_a_busy_server_that_accepts_late_is_waited_for(tmp_path: Path, method: str) -> None:
    rig = Rig(tmp_path)
    await rig.proxy.start()
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(rig.upstream))
        busy.listen()
        async with connected(rig.socket) as channel:
            call = asyncio.ensure_future(unary(channel, method))
            assert not (await asyncio.wait((call,), timeout=0.5))[0]
            busy.close()
            assert (await failure(call)).code() is grpc.StatusCode.UNAVAILABLE
    await rig.proxy.stop(0, 0)


@pytest.mark.parametrize("method", ["Status", "Wait"])
async def test_a_call_ends_with_the_server_that_began_it(tmp_path: Path, method: str) -> None:
    rig = Rig(tmp_path)
    await rig.proxy.start()
    async with connected(rig.socket) as channel, running(rig.upstream, rig.runtime):
        call = asyncio.ensure_future(unary(channel, method))
        await rig.runtime.waiting.wait()
        rig.upstream.rename(tmp_path / "kept.sock")
        async with running(rig.upstream, Runtime("second")):
            assert await unary(channel, "Version", b"to the second") == b"to the second"
            assert not rig.runtime.cancelled.is_set()
            rig.runtime.go_on.set()
            assert await call == b"at last"
    await rig.proxy.stop(0, 0)


async def test_a_stream_goes_to_the_server_that_is_there_when_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "EARLY_SECONDS", 60)
    rig = Rig(tmp_path)
    await rig.proxy.start()
    async with connected(rig.socket) as channel, running(rig.upstream, rig.runtime):
        talk = stream(channel, "Talk")
        await talk.write(b"one")
        await unary(channel, "Version")  # so that the proxy has seen the stream, which came before
        rig.upstream.rename(tmp_path / "kept.sock")
        async with running(rig.upstream, Runtime("second")):
            await unary(channel, "Version")
            await talk.done_writing()
            assert await talk.read() == b"ONE"
            assert await talk.code() is grpc.StatusCode.OK
    await rig.proxy.stop(0, 0)


async def test_stopping_cancels_calls_on_older_connections_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await rig.proxy.start()
    async with connected(rig.socket) as channel, running(rig.upstream, rig.runtime):
        call = asyncio.ensure_future(unary(channel, "Status"))
        await rig.runtime.waiting.wait()
        rig.upstream.rename(tmp_path / "kept.sock")
        async with running(rig.upstream, Runtime("second")):
            await unary(channel, "Version")
            assert held_below(tmp_path) == [tmp_path / "kept.sock", rig.upstream]
            await rig.proxy.stop(0, 0)
            assert not held_below(tmp_path)
            await rig.runtime.cancelled.wait()
            assert (await failure(call)).code() is grpc.StatusCode.UNAVAILABLE


async def test_a_refused_call_does_not_reach_the_server(rig: Rig) -> None:
    rig.judge.verdict.set_result(Rejection(grpc.StatusCode.FAILED_PRECONDITION, "not now"))

    error = await failure(unary(rig.channel, "StopContainer", b"which"))

    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "not now")
    assert rig.judge.seen == [b"which"]
    assert rig.runtime.asked == []


async def test_a_call_waits_for_its_verdict_and_nobody_else_does(rig: Rig) -> None:
    stopping = asyncio.ensure_future(unary(rig.channel, "StopContainer", b"which"))
    await until(lambda: rig.judge.seen)

    assert await unary(rig.channel, "Version", b"x") == b"x"
    assert not stopping.done()
    rig.judge.verdict.set_result(None)

    assert await stopping == b"which"
    assert rig.runtime.asked[-1] == (RUNTIME + "StopContainer", b"which")


async def test_calls_that_are_under_way_may_end(rig: Rig) -> None:
    call = asyncio.ensure_future(unary(rig.channel, "Status"))
    await rig.runtime.waiting.wait()

    stopping = asyncio.ensure_future(rig.proxy.stop(30, 30))
    await until(lambda: not rig.socket.exists())
    rig.runtime.go_on.set()

    assert await call == b"at last"
    await stopping


async def test_a_path_that_cannot_be_bound_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((OSError, RuntimeError)):
        Proxy(tmp_path / "no" / "such" / "directory", lambda: tmp_path, Judge())
