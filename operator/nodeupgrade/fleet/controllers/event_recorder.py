"""Kubernetes events about what was done, emitted in the background as client-go's recorder does: nobody waits."""

import asyncio
from collections.abc import Iterable

from nodeupgrade.cluster.kube_api import Event
from nodeupgrade.cluster.typed_objects import TypedKube

MOST_WAITING = 1000
"""Events that wait at most; further ones are dropped, because an API server that is this far behind needs rest."""


class EventRecorder:
    """Emits the recorded events one after the other, in order, while it runs."""

    def __init__(self, kube: TypedKube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

    def record(self, events: Iterable[Event]) -> None:
        """Take note of events; returns at once."""
        for event in events:
            if not self._waiting.full():
                self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Emit events until cancelled."""
        while True:
            await self._kube.emit_event(await self._waiting.get())

    def forget(self) -> None:
        """Drop what is waiting: a former leader has nothing to tell."""
        while not self._waiting.empty():
            self._waiting.get_nowait()
