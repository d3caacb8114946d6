"""Provides a clock for work queues, and reads the next key."""

import asyncio
from typing import Any

from nodeupgrade.fleet.controllers.queue import WorkQueue


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def ready(queue: WorkQueue[Any]) -> Any:
    """The next key, or None if nobody would get one now."""
    taking = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0.01)
    if taking.done():
        return taking.result()
    taking.cancel()
    return None
