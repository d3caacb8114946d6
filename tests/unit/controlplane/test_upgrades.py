import asyncio
import os
import signal
import threading

import pytest

from nodeupgrade.controlplane.upgrades import _signals, supervise

SECONDS = 10


class Kopf:
    """Gives up so many times, then serves until told to stop."""

    def __init__(self, ends: int) -> None:
        self.ends, self.runs = ends, 0
        self.stopping, self.serving, self.called = threading.Event(), threading.Event(), threading.Event()

    def serve(self) -> None:
        self.runs += 1
        self.called.set()
        if self.runs <= self.ends:
            raise RuntimeError("the API server answered 500")
        self.serving.set()
        assert self.stopping.wait(SECONDS)

    def halt(self) -> None:
        if self.serving.is_set():
            self.stopping.set()


class Soon:
    """Delays that do not delay a test."""

    def __iter__(self) -> "Soon":
        return self

    def __next__(self) -> float:
        return 0.01


async def test_kopf_may_end_and_news_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeupgrade.controlplane.handlers.EndlessBackoff", Soon)
    stop, kopf = asyncio.Event(), Kopf(ends=5)
    supervising = asyncio.ensure_future(supervise(kopf, stop))
    assert await asyncio.to_thread(kopf.serving.wait, SECONDS)
    assert kopf.runs == 6
    stop.set()
    await asyncio.wait_for(supervising, SECONDS)


async def test_a_signal_ends_the_wait_for_another_attempt() -> None:
    stop, kopf = asyncio.Event(), Kopf(ends=1000)
    with _signals(stop):
        supervising = asyncio.ensure_future(supervise(kopf, stop))
        assert await asyncio.to_thread(kopf.called.wait, SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(supervising, SECONDS)
    assert kopf.runs < 1000


async def test_kopf_stops_when_the_others_end() -> None:
    stop, kopf = asyncio.Event(), Kopf(ends=0)
    supervising = asyncio.ensure_future(supervise(kopf, stop))
    assert await asyncio.to_thread(kopf.serving.wait, SECONDS)
    supervising.cancel()
    await asyncio.gather(supervising, return_exceptions=True)
    assert kopf.stopping.is_set()
