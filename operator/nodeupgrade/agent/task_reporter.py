"""The agent's end of the task: reading what is wanted, telling what is true, however long the API server is away."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.node.run.task_report import essential_status
from nodeupgrade.ports.kube import InvalidError, NodeSideKube, NotFoundError, RejectedError

TELL_SECONDS = 2.0
SELDOM_SECONDS = 60.0
"""Longest pause before something is told again that was refused."""

PATIENCE_SECONDS = 600.0
"""How long the API server may refuse what has to be told, before this agent makes room for another."""

log = structlog.get_logger()


class Released(Exception):
    """The task is gone or asks for another run."""


class UnheardError(Exception):
    """The API server refuses whatever this agent has to say.

    An agent that stayed would wait for ever. One that ends is replaced, with credentials of today and the image of
    the operator that runs by then, and its successor finds plan and journal on the node. Nothing is begun before the
    first status was accepted.
    """


class TaskReporter:
    """Speaks for one run of one task.

    Args:
        completed: adds to a status what is to be in every one of the run's.

    Attributes:
        told: the status that was told last.
    """

    def __init__(
        self, settings: AgentSettings, kube: NodeSideKube, completed: Callable[[TaskStatus], TaskStatus]
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._completed = completed
        self._known: Task | None = None
        self.told: TaskStatus | None = None

    async def read(self) -> Task:
        """Read the task, however long the API server is away.

        Raises:
            Released: it is gone, or asks for another run by now.
        """
        while True:
            try:
                task = await self._kube.get_task(self._settings.task)
            except NotFoundError as error:
                raise Released from error
            except NodeUpgradeError as error:
                log.warning("cannot read the task yet", error=str(error))
                await asyncio.sleep(TELL_SECONDS)
                continue
            if task.spec.run_id != self._settings.run_id or task.spec.action is TaskAction.RELEASE:
                raise Released
            self._known = task
            return task

    async def glance(self) -> Task | None:
        """Read the task, and as it was known last if it cannot be read just now, so that a deadline holds all the same.

        ``None`` when it is gone or asks for another run by now.
        """
        try:
            task = await asyncio.wait_for(self._kube.get_task(self._settings.task), TELL_SECONDS)
        except NotFoundError:
            return None
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("cannot reach the API server; the run goes on", error=str(error))
            return self._known
        self._known = task
        return task if task.spec.run_id == self._settings.run_id else None

    async def tell(self, status: TaskStatus) -> None:
        """Write the task's status if it says something new; the run does not depend on it."""
        status = self._timed(self._completed(status))
        if status == self.told:
            return
        try:
            await asyncio.wait_for(self._write(status), TELL_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("cannot tell the task yet", error=str(error))
            if status.phase.terminal:
                self.told = status
            return
        self.told = status

    async def tell_for_sure(self, status: TaskStatus) -> bool:
        """Write a status that must be known, however long the API server is away.

        Returns:
            Whether anybody will know: not if the task is gone, or asks for another run by now.

        Raises:
            UnheardError: it was there all the time and refused.
        """
        status = self._completed(status)
        refused, pause = 0.0, TELL_SECONDS
        while True:
            self.told = None
            try:
                task = await self._write(self._timed(status))
            except NotFoundError:
                return False
            except RejectedError as error:
                if refused >= PATIENCE_SECONDS:
                    raise UnheardError(
                        f"the API server has refused every status for {refused:.0f} s: {error}"
                    ) from error
                log.warning("the API server refuses what has to be told", error=str(error), again_after=pause)
                await asyncio.sleep(pause)
                refused, pause = refused + pause, min(2 * pause, SELDOM_SECONDS)
            except NodeUpgradeError as error:
                log.warning("cannot tell the task yet", error=str(error))
                refused, pause = 0.0, TELL_SECONDS
                await asyncio.sleep(TELL_SECONDS)
            else:
                return task.spec.run_id == self._settings.run_id

    async def _write(self, status: TaskStatus) -> Task:
        """Write a status; what is told besides is left out where CRDs older than this agent refuse it."""
        try:
            return await self._kube.patch_task_status(self._settings.task, status)
        except InvalidError as error:
            log.warning("the API server refuses the whole report; telling less", error=str(error))
            return await self._kube.patch_task_status(self._settings.task, essential_status(status, str(error)))

    def _timed(self, status: TaskStatus) -> TaskStatus:
        if status.phase.terminal and status.finished_at is None:
            finished = self.told.finished_at if self.told else None
            return replace(status, finished_at=finished or datetime.now(UTC))
        return status


def may_begin(task: Task, action: TaskAction) -> bool:
    """Whether an action is wanted, and still in time."""
    return task.spec.action is action and task.spec.verdict is None and not is_late(task)


def is_late(task: Task) -> bool:
    """Whether the run's time is up."""
    return task.spec.deadline is not None and datetime.now(UTC) > task.spec.deadline
