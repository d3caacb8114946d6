"""Hears of NodeUpgrades through kopf, and starts kopf again where kopf itself gives up.

kopf ends when the API server answers a watch with an error other than "expired", or a list with "expired". When it
ends it cancels every task of its event loop, whoever made it. So it has a loop and a thread of its own, and its end
is no reason for informers and workers to forget what they know.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Protocol

import kopf
import structlog

from nodeupgrade.controlplane import handlers
from nodeupgrade.controlplane.dispatcher import Dispatcher

QUIET_SECONDS = 300.0
"""After so long without an end, the next one is the first again."""

HALT_SECONDS = 0.5

_log = structlog.get_logger(__name__)


async def follow_upgrades(dispatcher: Dispatcher, liveness: str, stop: asyncio.Event) -> None:
    """Run kopf until told to stop, by a signal or by the event; it answers the liveness probe for all of us."""
    with _signals(stop):
        await supervise(_Kopf(dispatcher, liveness), stop)


class Served(Protocol):
    """Something that serves in a thread."""

    def serve(self) -> None:
        """Serve until it breaks or is halted."""
        ...

    def halt(self) -> None:
        """Ask ``serve`` to return, from another thread; nothing happens unless it serves."""
        ...


class _Kopf:
    def __init__(self, dispatcher: Dispatcher, liveness: str) -> None:
        self._dispatcher, self._liveness = dispatcher, liveness
        self._worker = asyncio.get_running_loop()
        self._halts: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def serve(self) -> None:
        asyncio.run(self._serve())

    def halt(self) -> None:
        if self._halts is not None:
            loop, halted = self._halts
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(halted.set)

    async def _serve(self) -> None:
        # Not an event of threads: kopf would leave a thread behind that waits for it, and never end.
        self._halts = asyncio.get_running_loop(), asyncio.Event()
        await kopf.operator(
            registry=handlers.registry(self._heard, self._worker),
            settings=handlers.settings(),
            clusterwide=True,
            standalone=True,
            liveness_endpoint=self._liveness,
            stop_flag=self._halts[1],
        )

    def _heard(self, name: str) -> None:
        self._worker.call_soon_threadsafe(self._dispatcher.changed, name)


async def supervise(served: Served, stop: asyncio.Event) -> None:
    """Let something serve until told to stop; begin anew whenever it ends before."""
    clock = asyncio.get_running_loop().time
    delays = iter(handlers.EndlessBackoff())
    told = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            began, serving = clock(), asyncio.ensure_future(asyncio.to_thread(served.serve))
            try:
                await asyncio.wait({told, serving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _halt(served, serving)
            if not stop.is_set():
                delays = iter(handlers.EndlessBackoff()) if clock() - began > QUIET_SECONDS else delays
                delay = next(delays)
                _log.warning("kopf ended", error=repr(serving.exception()), again_in_seconds=delay)
                await asyncio.wait({told}, timeout=delay)
    finally:
        told.cancel()


async def _halt(served: Served, serving: asyncio.Future[None]) -> None:
    """Ask again and again: it may not have begun yet."""
    while not serving.done():
        served.halt()
        await asyncio.wait({serving}, timeout=HALT_SECONDS)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Stop when the process is told to."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
