"""Starts and stops our tasks in kopf's event loop: informers, the election and, while this replica leads, workers.

A replica that stands by keeps its caches warm and writes nothing. These tasks never end by themselves. If one of them
does, the operator exits and its Deployment starts it again; all state is in the API.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.transport import Session
from nodeupgrade.controlplane.settings import SettingsError, still_allows
from nodeupgrade.controlplane.wiring import ControlPlane, OperatorSettings, control_plane
from nodeupgrade.controlplane.workers import measure_lag, reconcile_for_ever
from nodeupgrade.fleet.controllers.event_keys import Queues
from nodeupgrade.fleet.leadership.campaign import Elector

_log = structlog.get_logger(__name__)

ALLOWED_SECONDS = 10.0
"""Interval at which the file of what is allowed is read again; a kubelet exchanges it within two minutes."""


class Manager:
    """Owns the control plane from start-up to clean-up.

    Args:
        stop: Set as soon as a task ends unexpectedly, or what is allowed has changed.

    Attributes:
        refusal: The error that kept the operator from starting.
        failed: Whether a task has ended unexpectedly.
    """

    def __init__(self, settings: OperatorSettings, stop: asyncio.Event) -> None:
        self._settings, self._stop = settings, stop
        self._queues = Queues()
        self._stack = AsyncExitStack()
        self._plane: ControlPlane | None = None
        self._may_log_in = True
        self._tasks: set[asyncio.Task[None]] = set()
        self.failed = False
        self.refusal: Exception | None = None

    async def start(self) -> None:
        """Log in, check that everything can be watched, and start all tasks.

        Raises:
            NoClusterError: No API server is configured.
            ForbiddenError: A permission is missing.
            NotFoundError: A CustomResourceDefinition is not installed.
            UnavailableError: The API server does not answer.
            OSError: The port for metrics is in use.
        """
        async with AsyncExitStack() as stack:
            plane = await stack.enter_async_context(control_plane(self._settings, self._queues))
            await plane.check_access()
            self._plane, self._stack = plane, stack.pop_all()
        self._run("informers", plane.fleet.run())
        self._run("event loop lag", measure_lag(plane.metrics))
        if (file := self._settings.allowed_file) is not None:
            self._run("what is allowed", self._follow_allowed(file))
        self._run("election", lead(plane.elector, lambda: self._work(plane)))
        _log.info("operator_started")

    async def stop(self) -> None:
        """Stop all tasks and close all connections."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stack.aclose()

    def log_in(self) -> Session | None:
        """Return a session with our own login the first time; then None, since no other login exists."""
        opened, self._may_log_in = self._may_log_in, False
        return self._plane.kube.session() if opened and self._plane is not None else None

    def upgrade_changed(self, body: Json, *, deleted: bool) -> None:
        """Update the informer's copy of a NodeUpgrade from an event, and requeue it."""
        name, uid = body["metadata"]["name"], body["metadata"]["uid"]
        if self._plane is not None:
            known = self._plane.fleet.upgrades
            if deleted:
                known.forget(name, uid)
            else:
                known.learn(body)
        self._queues.rollouts.add(name)

    async def _work(self, plane: ControlPlane) -> None:
        """Do what only the leader does, until cancelled; nothing of it goes on afterwards."""
        own = plane.controllers
        plane.fleet.upgrades.doubts += 1  # another leader may have written them since the last term
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(plane.health.run())
                group.create_task(plane.notifier.run())
                group.create_task(own.recorder.run())
                group.create_task(reconcile_for_ever(self._queues, own, plane.metrics, plane.notifier.offer))
        finally:
            own.forget()
            self._queues.forget()

    async def _follow_allowed(self, file: Path) -> None:
        """Let the operator end, and so be started again, once its file allows something else than it has read.

        Where the ConfigMap has a name of its content, a new Deployment does the same. It keeps its name if it is edited
        in a rendered file or in the cluster, and what was withdrawn would be allowed for as long as the pod lives. With
        a file that is not valid no replica could start, so all go on with what they have read.
        """
        told = ""
        while True:
            await asyncio.sleep(ALLOWED_SECONDS)
            try:
                if not self._stop.is_set() and not still_allows(file, self._settings.agents.allowed):
                    _log.warning("allowed_changed", file=str(file), then="this replica ends, and starts with it")
                    self._stop.set()
            except SettingsError as error:
                if str(error) != told:
                    _log.error("allowed_not_valid", error=str(error), then="what was read before stays in force")
                told = str(error)

    def _run(self, name: str, job: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(job, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task not in self._tasks:
            return  # cancelled by stop()
        problem = None if task.cancelled() else task.exception()
        _log.error("task_ended_unexpectedly", task=task.get_name(), exc_info=problem)
        self.failed = True
        self._stop.set()


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
            raise RuntimeError("the control plane's work ended unexpectedly")
        _log.warning("leadership_lost")
