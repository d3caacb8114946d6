"""Works while this replica leads, and only then."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from nodeupgrade.engine.election import Elector

_log = structlog.get_logger(__name__)


async def lead(elector: Elector, work: Callable[[], Awaitable[None]]) -> None:
    """Campaign, work while leading, and campaign again after the leadership was lost; never returns.

    All work has ended before the leadership is given back: when this is cancelled, as at a rolling update of the
    operator, the next leader need not wait until the Lease expires.

    Raises:
        Exception: The work has failed, or ended by itself.
    """
    while True:
        await elector.campaign()
        _log.info("leadership_acquired", epoch=elector.epoch)
        keeping = asyncio.ensure_future(elector.keep())
        working = asyncio.ensure_future(work())
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (keeping, working):
                task.cancel()
            await asyncio.gather(keeping, working, return_exceptions=True)
            await elector.release()
        for task in (working, keeping):
            if not task.cancelled() and (problem := task.exception()) is not None:
                raise problem
        if not working.cancelled():
            raise RuntimeError("the work has ended that must not end")
        _log.warning("leadership_lost")
