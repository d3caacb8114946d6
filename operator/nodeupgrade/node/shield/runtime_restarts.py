"""Follows restarts of the runtime: gives its path back when it ends, and raises the shield again afterwards."""

import asyncio
import os
from collections.abc import Callable

import structlog

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.socket_listener import open_listener
from nodeupgrade.node.shield.socket_exchange import Exchange

log = structlog.get_logger()

LOOK_SECONDS = 0.1


async def raise_after_restarts(exchange: Exchange) -> None:
    """Raise the shield again whenever the runtime has taken its path back and is done with it."""
    seen: tuple[int, ...] | None = None
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        last, seen = seen, exchange.look()
        if seen is not None and seen == last:
            await raise_again(exchange)


async def step_aside(exchange: Exchange) -> None:
    """Leave the runtime's path as soon as the runtime has ended: it would find it taken when it starts again."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if exchange.raised():
            runtime = await asyncio.to_thread(open_listener, exchange.upstream())
            if runtime is not None:
                await _end_of(runtime)
            await asyncio.to_thread(succeeds, exchange.step_aside)


async def _end_of(process: int) -> None:
    """Wait until a process has ended, by its file descriptor, and close that."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(process, over.set)
    try:
        await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(process)
        os.close(process)


async def raise_again(exchange: Exchange) -> None:
    """Raise the shield, if the runtime has its path."""
    if exchange.look() is None:
        return
    try:
        await asyncio.to_thread(exchange.raise_again)
        log.info("shield_raised", socket=str(exchange.path))
    except StepFailed as error:
        log.info("shield_raise_failed", why=str(error))


def succeeds(lower: Callable[[], None]) -> bool:
    """Call it, and report whether that succeeded; a failure is logged."""
    try:
        lower()
    except StepFailed as error:
        log.warning("shield_lowering_failed", error=str(error))
        return False
    return True
