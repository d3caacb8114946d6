"""Hears of NodeUpgrades through kopf, and starts kopf again where kopf itself gives up.

kopf ends when the API server answers a watch with an error other than "expired", or a list with "expired". That
is no reason for informers and workers to forget what they know.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator

import kopf
import structlog

from nodeupgrade.controlplane import handlers
from nodeupgrade.controlplane.dispatcher import Dispatcher

QUIET_SECONDS = 300.0
"""After so long without an end, the next one is the first again."""

_log = structlog.get_logger(__name__)


async def follow_upgrades(dispatcher: Dispatcher, liveness: str, stop: asyncio.Event) -> None:
    """Run kopf until told to stop, by a signal or by the event."""

    async def once() -> None:
        await kopf.operator(
            registry=handlers.registry(dispatcher),
            settings=handlers.settings(),
            clusterwide=True,
            standalone=True,
            liveness_endpoint=liveness,
            stop_flag=stop,
        )

    await supervise(once, stop)


async def supervise(serve: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Call something until it returns, which it does when told to stop; begin anew when it raises."""
    clock = asyncio.get_running_loop().time
    delays = iter(handlers.EndlessBackoff())
    while not stop.is_set():
        began = clock()
        try:
            await serve()
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, NodeUpgrades must be heard of again
            delays = iter(handlers.EndlessBackoff()) if clock() - began > QUIET_SECONDS else delays
            delay = next(delays)
            _log.warning("kopf ended", error=repr(error), again_in_seconds=delay)
        with _signals(stop), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await stop.wait()


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """While kopf does not run, nobody else listens to signals."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
