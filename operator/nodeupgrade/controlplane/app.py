"""Runs kopf and the workers together; the end of either is the end of both."""

from __future__ import annotations

import asyncio
import contextlib

import kopf

from nodeupgrade.controlplane import handlers
from nodeupgrade.controlplane.driver import resync, work
from nodeupgrade.controlplane.queue import WorkQueue
from nodeupgrade.controlplane.settings import OperatorSettings
from nodeupgrade.wiring import controlplane as wiring

WORKERS = 4
"""Rollouts that are worked on at the same time; a pass mostly waits for the API server."""


async def run(settings: OperatorSettings, stop: asyncio.Event | None = None) -> None:
    """Serve until told to stop, by a signal or by the event."""
    queue = WorkQueue()
    async with (
        wiring.rollouts(settings.agents, operator_node=settings.node, kubeconfig=settings.kubeconfig) as rollouts,
        asyncio.TaskGroup() as group,
    ):
        tasks = [group.create_task(work(queue, rollouts)) for _ in range(WORKERS)]
        tasks.append(group.create_task(resync(queue, rollouts)))
        try:
            await kopf.operator(
                registry=handlers.registry(queue),
                settings=handlers.settings(),
                clusterwide=True,
                standalone=True,
                liveness_endpoint=settings.liveness,
                stop_flag=stop,
            )
        finally:
            for task in tasks:
                task.cancel()


def serve(settings: OperatorSettings) -> None:
    """Run in an event loop of its own."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(settings))
