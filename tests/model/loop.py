"""An event loop without input and output: when nothing is left to do now, it is the time of the next timer at once."""

import asyncio
import heapq
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class InstantLoop(BaseEventLoop):
    """The event loop."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def time(self) -> float:
        return self.passed

    def _run_once(self) -> None:
        """Do what is left to do; several times as fast as what it replaces."""
        ready, timers = self._ready, self._scheduled
        while not ready:
            if not timers:
                raise RuntimeError("everything waits and nothing will happen any more")
            timer = heapq.heappop(timers)
            if not timer.cancelled():
                self.passed = max(self.passed, timer.when())
                ready.append(timer)
        for _ in range(len(ready)):
            if not (handle := ready.popleft()).cancelled():
                handle._run()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


_LOOP = InstantLoop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end."""
    asyncio.set_event_loop(None)
    try:
        return _LOOP.run_until_complete(main)
    finally:
        _LOOP._scheduled.clear()
