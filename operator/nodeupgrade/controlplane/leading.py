"""Works while this replica leads, and only then."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

_log = structlog.get_logger(__name__)


class Election(Protocol):
    """The part of the engine that decides who leads."""

    @property
    def epoch(self) -> str:
        """The current term."""
        ...

    async def campaign(self) -> None:
        """Return once this replica leads."""
        ...

    async def keep(self) -> None:
        """Return as soon as it does not lead any more."""
        ...

    async def release(self) -> None:
        """Let another replica lead at once."""
        ...


async def lead(election: Election, work: Callable[[], Awaitable[None]]) -> None:
    """Campaign, work while leading, and campaign again after the leadership was lost; never returns.

    All work has ended before the leadership is given back: when this is cancelled, as at a rolling update of the
    operator, the next leader need not wait until the Lease expires.

    Raises:
        Exception: The work has failed, or ended by itself.
    """
    while True:
        await election.campaign()
        _log.info("leadership_acquired", epoch=election.epoch)
        keeping = asyncio.ensure_future(election.keep())
        working = asyncio.ensure_future(work())
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (keeping, working):
                task.cancel()
            await asyncio.gather(keeping, working, return_exceptions=True)
            await election.release()
        for task in (working, keeping):
            if not task.cancelled() and (problem := task.exception()) is not None:
                raise problem
        if not working.cancelled():
            raise RuntimeError("the work has ended that must not end")
        _log.warning("leadership_lost")
