from __future__ import annotations

import asyncio
import os
import signal

import pytest

from nodeupgrade.controlplane.upgrades import supervise


class Kopf:
    """Gives up so many times, then serves until told to stop."""

    def __init__(self, stop: asyncio.Event, ends: int) -> None:
        self.stop, self.ends, self.runs = stop, ends, 0
        self.serving, self.called = asyncio.Event(), asyncio.Event()

    async def serve(self) -> None:
        self.runs += 1
        self.called.set()
        if self.runs <= self.ends:
            raise RuntimeError("the API server answered 500")
        self.serving.set()
        await self.stop.wait()


class Soon:
    """Delays that do not delay a test."""

    def __iter__(self) -> Soon:
        return self

    def __next__(self) -> float:
        return 0.01


async def test_kopf_may_end_and_news_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeupgrade.controlplane.handlers.EndlessBackoff", Soon)
    stop = asyncio.Event()
    kopf = Kopf(stop, ends=5)
    supervising = asyncio.ensure_future(supervise(kopf.serve, stop))
    await asyncio.wait_for(kopf.serving.wait(), 10)
    assert kopf.runs == 6
    stop.set()
    await asyncio.wait_for(supervising, 10)


async def test_a_signal_ends_the_wait_for_another_attempt() -> None:
    stop = asyncio.Event()
    kopf = Kopf(stop, ends=1000)
    supervising = asyncio.ensure_future(supervise(kopf.serve, stop))
    await kopf.called.wait()
    await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(supervising, 10)
    assert kopf.runs < 1000
