"""Tests that the shield follows restarts of the runtime, whatever the node lacks meanwhile."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nodeupgrade.node.shield.runtime_restarts import raise_after_restarts, step_aside
from tests.builders.shield_sockets import RUNTIME, Rig

SECONDS = 60.0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(tmp_path, stack)


@pytest.fixture(autouse=True)
def no_thread_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods may use up what the kernel has for processes and threads, and runtimes do not outlive that either."""
    run, left = asyncio.to_thread, [None] * 3

    async def to_thread(call: Callable[..., object], *given: object) -> object:
        if left:
            left.pop()
            raise RuntimeError("can't start new thread")
        return await run(call, *given)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)


async def until(holds: Callable[[], bool], meanwhile: Coroutine[None, None, None]) -> None:
    task = asyncio.ensure_future(meanwhile)
    async with asyncio.timeout(SECONDS):
        while not (holds() or task.done()):  # noqa: ASYNC110  # simpler than an event
            await asyncio.sleep(0.01)
    assert not task.done(), task.exception()
    task.cancel()


async def test_it_takes_the_path_again(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listen("runtime", RUNTIME)

    await until(lambda: rig.inode() == rig.shield, raise_after_restarts(exchange))


async def test_it_leaves_the_path_to_a_runtime_that_has_ended(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listening["runtime"].close()

    await until(lambda: rig.inode() is None, step_aside(exchange))
