"""The agent's end of the task: reading what is wanted, telling what is true, however long the API server is away."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.task import Task, TaskAction
from nodeupgrade.domain.task_status import TaskStatus
from nodeupgrade.ports.kube import NodeSideKube, NotFoundError

TELL_SECONDS = 2.0

log = structlog.get_logger()


class Released(Exception):
    """The task is gone or asks for another run."""


class TaskLink:
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
            return task

    async def glance(self) -> Task | None:
        """Read the task for whatever run it is; ``None`` when it is gone or cannot be read just now."""
        try:
            return await self._kube.get_task(self._settings.task)
        except NotFoundError:
            return None
        except NodeUpgradeError as error:
            log.info("cannot reach the API server; the run goes on", error=str(error))
            return None

    async def tell(self, status: TaskStatus) -> None:
        """Write the task's status if it says something new; the run does not depend on it."""
        status = self._timed(self._completed(status))
        if status == self.told:
            return
        try:
            await asyncio.wait_for(self._kube.patch_task_status(self._settings.task, status), TELL_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("cannot tell the task yet", error=str(error))
            if status.phase.terminal:
                self.told = status
            return
        self.told = status

    async def tell_for_sure(self, status: TaskStatus) -> None:
        """Write a status that must be known, however long the API server is away."""
        status = self._completed(status)
        while True:
            self.told = None
            try:
                await self._kube.patch_task_status(self._settings.task, self._timed(status))
            except NotFoundError:
                return
            except NodeUpgradeError as error:
                log.warning("cannot tell the task yet", error=str(error))
                await asyncio.sleep(TELL_SECONDS)
            else:
                return

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
