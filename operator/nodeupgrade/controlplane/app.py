"""Runs kopf, the informers and the workers together; the end of any of them is the end of all."""

import asyncio
import contextlib

import structlog

from nodeupgrade.controlplane.dispatcher import Dispatcher
from nodeupgrade.controlplane.driver import measure_lag, resync, work
from nodeupgrade.controlplane.queue import WorkQueue
from nodeupgrade.controlplane.settings import OperatorSettings
from nodeupgrade.controlplane.upgrades import follow_upgrades
from nodeupgrade.wiring.controlplane import control_plane

WORKERS = 4
"""Rollouts that are worked on at the same time; a pass mostly waits for the API server."""

_log = structlog.get_logger(__name__)


async def run(settings: OperatorSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until told to stop, by a signal or by the event."""
    queue = WorkQueue()
    dispatcher = Dispatcher(queue)
    building = control_plane(
        settings.agents,
        operator_node=settings.node,
        kubeconfig=settings.kubeconfig,
        metrics_host=settings.metrics_host,
        metrics_port=settings.metrics_port,
        queue_depth=lambda: len(queue),
        concerned=dispatcher.concerned,
        troubled=_complain,
    )
    async with building as plane, asyncio.TaskGroup() as group:
        jobs = [plane.fleet.run(), resync(dispatcher, plane.rollouts), measure_lag(plane.metrics)]
        jobs += [work(queue, dispatcher, plane.rollouts, plane.metrics) for _ in range(WORKERS)]
        tasks = [group.create_task(job) for job in jobs]
        try:
            await follow_upgrades(dispatcher, settings.liveness, stop or asyncio.Event())
        finally:
            for task in tasks:
                task.cancel()


def serve(settings: OperatorSettings) -> None:
    """Run in an event loop of its own."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(settings))


def _complain(kind: str, problem: str) -> None:
    _log.warning("cannot follow", kind=kind, error=problem)
