"""Reads the agent's NodeUpgradeTask and writes its status, however long the API server is unavailable."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.cluster.kube_api import InvalidError, NodeSideKube, NotFoundError, RejectedError
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.task_status.task_status import essential_status

REQUEST_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 60.0
"""Longest pause before a rejected status is sent again."""
PATIENCE_SECONDS = 600.0
"""How long the API server may reject a status before this agent ends, so that another takes its place."""
READ_PATIENCE_SECONDS = 30.0
"""How long the API server may refuse to show the task before this agent ends, so that its kubelet reports why."""

ReportStatus = Callable[[TaskStatus], Awaitable[None]]
"""Writes a status of the task."""

log = structlog.get_logger()


class NoLongerWanted(Exception):
    """The task is gone or asks for another run."""


class TaskRefusedError(Exception):
    """The API server refuses to show the task to this agent, or rejects every status of it.

    An agent that stayed would wait forever. An agent that ends is replaced by one with fresh credentials and the
    operator's current image, which finds plan and journal on the node. No run begins before a status is accepted.
    """


@dataclass(eq=False, slots=True)
class TaskReporter:
    """Reports one run of one task."""

    settings: AgentSettings
    kube: NodeSideKube
    complete: Callable[[TaskStatus], TaskStatus]  # adds the fields that every status of the run has
    last: TaskStatus | None = None  # the latest status that was reported
    _known: Task | None = None

    async def read(self) -> Task:
        """Read the task, with retries for as long as the API server is unavailable.

        Raises:
            NoLongerWanted: the task is gone, released, or asks for another run.
            TaskRefusedError: the API server was available and kept refusing to show the task.
        """
        refused = 0.0
        while True:
            try:
                task = await self.kube.get_task(self.settings.task)
            except NotFoundError as error:
                raise NoLongerWanted from error
            except NodeUpgradeError as error:
                if isinstance(error, RejectedError) and refused >= READ_PATIENCE_SECONDS:
                    raise TaskRefusedError(f"the API server refuses to show the task: {error}") from error
                log.warning("task_read_failed", error=str(error))
                refused = refused + REQUEST_SECONDS if isinstance(error, RejectedError) else 0.0
                await asyncio.sleep(REQUEST_SECONDS)
                continue
            if task.spec.run_id != self.settings.run_id or task.spec.action is TaskAction.RELEASE:
                raise NoLongerWanted
            self._known = task
            return task

    async def read_or_recall(self) -> Task | None:
        """Read the task once; if that fails, return it as last read, so that its deadline still applies.

        Returns:
            ``None`` if the task is gone or asks for another run.
        """
        try:
            task = await asyncio.wait_for(self.kube.get_task(self.settings.task), REQUEST_SECONDS)
        except NotFoundError:
            return None
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("api_server_unreachable", error=str(error))
            return self._known
        self._known = task
        return task if task.spec.run_id == self.settings.run_id else None

    def is_late(self, task: Task) -> bool:
        """Report whether the deadline of the task's run has passed, whatever the node's clock says."""
        return task.is_late(self.kube.server_time())

    def may_begin(self, task: Task, action: TaskAction) -> bool:
        """Report whether the task asks for this action, has no verdict yet, and is not past its deadline."""
        return task.spec.action is action and task.spec.verdict is None and not self.is_late(task)

    async def report(self, status: TaskStatus) -> None:
        """Write the task's status if it has changed. Failures are only logged."""
        status = self._timed(self.complete(status))
        if status == self.last:
            return
        try:
            await asyncio.wait_for(self._write(status), REQUEST_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("task_report_failed", error=str(error))
            if status.phase.terminal:
                self.last = status
            return
        self.last = status

    async def report_until_accepted(self, status: TaskStatus) -> bool:
        """Write a status, with retries for as long as the API server is unavailable.

        Returns:
            Whether the status was written for this run; false if the task is gone or asks for another run.

        Raises:
            TaskRefusedError: the API server was available and kept rejecting the status.
        """
        status = self.complete(status)
        refused, pause = 0.0, REQUEST_SECONDS
        while True:
            self.last = None
            try:
                task = await self._write(self._timed(status))
            except NotFoundError:
                return False
            except RejectedError as error:
                if refused >= PATIENCE_SECONDS:
                    why = f"the API server has rejected every status for {refused:.0f} s: {error}"
                    raise TaskRefusedError(why) from error
                log.warning("task_report_refused", error=str(error), again_after=pause)
                await asyncio.sleep(pause)
                refused, pause = refused + pause, min(2 * pause, LONGEST_PAUSE_SECONDS)
            except NodeUpgradeError as error:
                log.warning("task_report_failed", error=str(error))
                refused, pause = 0.0, REQUEST_SECONDS
                await asyncio.sleep(REQUEST_SECONDS)
            else:
                return task.spec.run_id == self.settings.run_id

    async def _write(self, status: TaskStatus) -> Task:
        """Write a status; if an older CRD rejects it, write only its essential fields."""
        try:
            return await self.kube.patch_task_status(self.settings.task, status)
        except InvalidError as error:
            log.warning("task_report_shortened", error=str(error))
            return await self.kube.patch_task_status(self.settings.task, essential_status(status, str(error)))

    def _timed(self, status: TaskStatus) -> TaskStatus:
        if status.phase.terminal and status.finished_at is None:
            return replace(status, finished_at=(self.last and self.last.finished_at) or datetime.now(UTC))
        return status
