"""Runs the operator: kopf in one event loop, and everything else as tasks that kopf starts and stops."""

import asyncio

import kopf
import structlog

from nodeupgrade.controlplane import handlers
from nodeupgrade.controlplane.manager import Manager
from nodeupgrade.controlplane.settings import OperatorSettings

_log = structlog.get_logger(__name__)


async def run(settings: OperatorSettings, stop: asyncio.Event) -> bool:
    """Serve until told to stop, by a signal or by the event; say whether that is why it ended.

    Raises:
        Exception: kopf could not start, or gave up following NodeUpgrades.
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
        # Of several tasks that fail kopf raises any one; what kept us from starting is why.
        if manager.refusal is not None:
            raise manager.refusal from None
        raise
    return not manager.failed


def serve(settings: OperatorSettings) -> int:
    """Run in an event loop of its own, and return the exit status: 0 only if it was told to stop."""

    async def until_stopped() -> bool:
        return await run(settings, asyncio.Event())

    try:
        return 0 if asyncio.run(until_stopped()) else 1
    except Exception as error:  # noqa: BLE001 - the process ends, whatever it is, and its log says why
        _log.exception("the operator ends", error=str(error.__cause__ or error))
        return 1
