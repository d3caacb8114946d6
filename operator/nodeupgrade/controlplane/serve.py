"""Runs the operator: kopf in one event loop, with our tasks started and stopped by its handlers."""

import asyncio
import gc

import kopf
import structlog

from nodeupgrade.controlplane import handlers
from nodeupgrade.controlplane.manager import Manager
from nodeupgrade.controlplane.wiring import OperatorSettings

NEW_OBJECTS = 50_000
"""How many more objects there are before cycles among them are looked for.

Reading or planning a large fleet makes tens of thousands, hardly any of them in a cycle. CPython's default, some
hundreds, took a third of the processor while 5,000 Nodes were read.
"""

_log = structlog.get_logger(__name__)


async def run(settings: OperatorSettings, stop: asyncio.Event) -> bool:
    """Run the operator until a signal or the event stops it; return False if a task's failure stopped it instead.

    Raises:
        Exception: kopf could not start, or gave up watching NodeUpgrades.
    """
    manager = Manager(settings, stop)
    try:
        await kopf.operator(
            registry=handlers.registry(manager),
            settings=handlers.settings(),
            clusterwide=True,
            standalone=True,
            liveness_endpoint=settings.liveness,
            stop_flag=stop,
        )
    except Exception:
        # If several tasks fail, kopf raises any one of their errors; report the one that kept us from starting.
        if manager.refusal is not None:
            raise manager.refusal from None
        raise
    return not manager.failed


def serve(settings: OperatorSettings) -> int:
    """Run the operator in an event loop of its own; return the exit status, 0 only if it was asked to stop."""

    async def until_stopped() -> bool:
        return await run(settings, asyncio.Event())

    gc.set_threshold(NEW_OBJECTS)
    try:
        return 0 if asyncio.run(until_stopped()) else 1
    except Exception as error:  # noqa: BLE001 - the process ends, whatever it is, and its log says why
        _log.exception("operator_failed", error=str(error.__cause__ or error))
        return 1
