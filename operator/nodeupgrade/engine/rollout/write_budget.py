"""The budget of concurrent writes: bounded, fair between rollouts, and first for nodes in flight."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import TypeAlias

AT_ONCE = 64
"""Writes in progress at the same time, of all rollouts: well below what an API server gives to one client."""

RESERVED = 32
"""Of these, how many are for nodes in flight and for the status, whatever else waits or hangs."""

BEFORE_EVENTS = 2
"""Writes in progress at which an event waits: nobody waits for it, and many would delay what nodes wait for."""


class Rank(IntEnum):
    """Which writes go first when there is no room for all."""

    RUN = 0
    """For a node in flight, or for the NodeUpgrade itself."""
    CLAIM = 1
    """For a node that waits for its turn."""
    EVENT = 2
    """For people."""


_Waiters: TypeAlias = "OrderedDict[str, deque[asyncio.Future[None]]]"


class WriteBudget:
    """Permits for writes; whoever waits gets one by rank, then in turn of the rollouts, then in order.

    Args:
        at_once: Permits in all.
        reserved: Permits that only Rank.RUN may use.
        before_events: Permits in use at which Rank.EVENT gets none.
    """

    def __init__(self, at_once: int = AT_ONCE, reserved: int = RESERVED, before_events: int = BEFORE_EVENTS) -> None:
        others = max(1, at_once - reserved)
        self._limits = {Rank.RUN: at_once, Rank.CLAIM: others, Rank.EVENT: min(before_events, others)}
        self._used = 0
        self._waiting: dict[Rank, _Waiters] = {rank: OrderedDict() for rank in Rank}

    @asynccontextmanager
    async def permit(self, rollout: str, rank: Rank) -> AsyncIterator[None]:
        """Hold a permit while the context lasts."""
        await self._acquire(rollout, rank)
        try:
            yield
        finally:
            self._used -= 1
            self._serve()

    async def _acquire(self, rollout: str, rank: Rank) -> None:
        if self._used < self._limits[rank] and not self._waiting[rank]:
            self._used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[rank].setdefault(rollout, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given a permit at the same moment
                self._used -= 1
                self._serve()
            raise

    def _serve(self) -> None:
        """Give free permits to those who wait."""
        for rank, waiting in self._waiting.items():
            while waiting and self._used < self._limits[rank]:
                rollout, turns = waiting.popitem(last=False)
                turn = turns.popleft()
                if turns:
                    waiting[rollout] = turns  # it is the other rollouts' turn first
                if not turn.done():
                    self._used += 1
                    turn.set_result(None)
