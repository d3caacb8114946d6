"""Follows restarts of the runtime: frees its path when it ends, and raises the shield again afterwards."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import structlog

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.socket_listener import open_listener
from nodeupgrade.node.shield.socket_exchange import Exchange

T = TypeVar("T")

log = structlog.get_logger()

LOOK_SECONDS = 0.1


async def raise_after_restarts(exchange: Exchange) -> None:
    """Raise the shield again whenever the runtime has taken its path back and set mode and owner of its socket."""
    seen: tuple[int, ...] | None = None
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        last, seen = seen, exchange.foreign_socket()
        if seen is not None and seen == last:
            await raise_again(exchange)


async def step_aside(exchange: Exchange) -> None:
    """Leave the runtime's path as soon as the runtime has ended: it could not take the path when it starts again."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if exchange.raised():
            with suppress(StepFailed):
                runtime = await _in_thread(open_listener, exchange.upstream())
                if runtime is not None:
                    await _wait_for_end(runtime)
                await _in_thread(lowers, exchange.step_aside)


async def _wait_for_end(process: int) -> None:
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
    if exchange.foreign_socket() is None:
        return
    try:
        await _in_thread(exchange.raise_again)
        log.info("shield_raised", socket=str(exchange.path))
    except StepFailed as error:
        log.info("shield_raise_failed", why=str(error))


async def _in_thread(call: Callable[..., T], *given: object) -> T:
    """Call something that may take a while.

    Raises:
        StepFailed: the kernel has no thread left, as it may in a moment; or as the call raises.
    """
    try:
        return await asyncio.to_thread(call, *given)
    except RuntimeError as error:
        raise StepFailed(str(error)) from error


def lowers(action: Callable[[], None]) -> bool:
    """Lower the shield by an action of its exchange; report whether that succeeded. A failure is logged."""
    try:
        action()
    except StepFailed as error:
        log.warning("shield_lowering_failed", error=str(error))
        return False
    return True
