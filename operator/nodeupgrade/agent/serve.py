"""The agent pod's life: find out where this run stands, move it on, and tell the task until it is over."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from nodeupgrade.adapters.journal import RunStore
from nodeupgrade.agent.conduct import Conductor
from nodeupgrade.agent.precheck import Precheck
from nodeupgrade.agent.settings import STATE, AgentSettings
from nodeupgrade.domain.errors import Inconsistent, NodeUpgradeError
from nodeupgrade.domain.node.departures import was_deleted
from nodeupgrade.domain.node.journal import Journal, Outcome
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.report import RunReport, report_of
from nodeupgrade.domain.node.task_report import failed_status, run_status, stranded_status, unreadable_status
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import Task, TaskAction
from nodeupgrade.domain.task_status import TaskStatus
from nodeupgrade.domain.values import PodUid, RunId
from nodeupgrade.engine.node import Host
from nodeupgrade.ports.kube import NodeSideKube, NotFoundError

ATTEMPTS = 3
POLL_SECONDS = 0.5
LOOK_AT_TASK_EVERY = 10
EXECUTOR_ABSENT_LOOKS = 60
TELL_SECONDS = 2.0

log = structlog.get_logger()


class Agent:
    """Serves one task, for one run."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: Host) -> None:
        self._settings = settings
        self._kube = kube
        self._runs = RunStore(settings.on_host(STATE / "runs"))
        self._conductor = Conductor(settings, kube, host, self._runs, self.tell)
        self._precheck = Precheck(settings, kube, host, self._runs, self.tell)
        self._told: TaskStatus | None = None

    async def serve(self) -> None:
        """Do what the task asks; return when its status is terminal and told."""
        try:
            task = await self._task_for_sure()
            status = await (self._look_only(task) if task.spec.action is TaskAction.PRECHECK else self._run(task))
        except _Released:
            log.info("this run is not asked for any more", run=self._settings.run_id)
            return
        except Inconsistent as error:
            log.critical("a human is needed", error=str(error))
            status = unreadable_status(self._settings.run_id, str(error))
        await self._tell_for_sure(status)

    async def _look_only(self, task: Task) -> TaskStatus:
        """Report what an upgrade would do.

        Raises:
            _Released: by now, nobody wants to know.
        """
        if not _may_begin(task, TaskAction.PRECHECK):
            return self._never_started()
        status = await self._precheck.report(task)
        await self._task_for_sure()
        return status

    async def _run(self, task: Task) -> TaskStatus:
        for number in range(1, ATTEMPTS):
            status = await self._attempt(task, RunId(f"{self._settings.run_id}.{number}"), last=False)
            if status is not None:
                return status
            task = await self._task_for_sure()
        status = await self._attempt(task, RunId(f"{self._settings.run_id}.{ATTEMPTS}"), last=True)
        assert status is not None  # noqa: S101 - the last attempt is final
        return status

    async def _task_for_sure(self) -> Task:
        """Read the task, however long the API server is away.

        Raises:
            _Released: it is gone, or asks for another run by now.
        """
        while True:
            try:
                task = await self._kube.get_task(self._settings.task)
            except NotFoundError as error:
                raise _Released from error
            except NodeUpgradeError as error:
                log.warning("cannot read the task yet", error=str(error))
                await asyncio.sleep(TELL_SECONDS)
                continue
            if task.spec.run_id != self._settings.run_id or task.spec.action is TaskAction.RELEASE:
                raise _Released
            return task

    async def _attempt(self, task: Task, attempt: RunId, *, last: bool) -> TaskStatus | None:
        """Carry one attempt to its end.

        Returns:
            The terminal status, or ``None`` when containers came or went at the wrong moment and the next
            attempt may find them settled.
        """
        plan = await asyncio.to_thread(self._runs.read_plan, attempt)
        if plan is None:
            if not _may_begin(task, TaskAction.UPGRADE):
                return self._never_started()
            plan = await self._conductor.prepare(task, attempt)
        if plan is None:
            return self._told
        journal = await asyncio.to_thread(self._runs.read_journal, attempt)
        if not journal.records:
            if (ended := await self._begin(plan, journal)) is not None:
                return ended
        elif journal.finished is None:
            await self._bring_back(plan)
        if journal.finished is None:
            journal = await self._watch(plan, attempt)
        if (trouble := self._runs.trouble(attempt)) is not None and journal.finished is None:
            return stranded_status(self._settings.run_id, plan, journal, trouble)
        if not last and _worth_another_attempt(journal):
            log.info("containers changed while planning; trying again")
            return None
        await self._conductor.clean_up(plan)
        self._runs.retire()
        return run_status(self._settings.run_id, plan, journal)

    async def _begin(self, plan: RunPlan, journal: Journal) -> TaskStatus | None:
        """Start the executor, if the run is still wanted.

        The control plane takes a run that nobody ever spoke of for one that touched nothing, and may call it off
        until then. So be heard first, and listen after that.

        Returns:
            The terminal status when nothing was started and never will be.

        Raises:
            _Released: likewise, and nobody wants to know.
        """
        await self._tell_for_sure(run_status(self._settings.run_id, plan, journal))
        try:
            task = await self._task_for_sure()
        except _Released:
            await self._withdrawn(plan)
            raise
        if not _may_begin(task, TaskAction.UPGRADE):
            return self._never_started() if await self._withdrawn(plan) else None
        try:
            await self._conductor.hand_over(plan)
        except NodeUpgradeError as error:
            log.warning("cannot hand over", error=str(error))
            if await self._withdrawn(plan):
                return failed_status(self._settings.run_id, Reason.STEP_FAILED, f"{error}; the node is untouched")
        return None

    async def _withdrawn(self, plan: RunPlan) -> bool:
        """Take the plan back, unless an executor has begun: then it has to come to an end."""
        if await self._conductor.withdraw(plan):
            return True
        await self._bring_back(plan)
        return False

    async def _watch(self, plan: RunPlan, attempt: RunId) -> Journal:
        """Tell the task what the journal says until it says that the run is over, or the executor gives up."""
        absent = 0
        looks = 0
        while True:
            journal = await asyncio.to_thread(self._runs.read_journal, attempt)
            if journal.finished is not None or self._runs.trouble(attempt) is not None:
                return journal
            await self.tell(run_status(self._settings.run_id, plan, journal))
            await self._pass_on_deletions(attempt)
            looks += 1
            if looks % LOOK_AT_TASK_EVERY == 0:
                await self._pass_on_abort(attempt)
                absent = 0 if await asyncio.to_thread(self._conductor.executor_runs) else absent + 1
            if absent * LOOK_AT_TASK_EVERY >= EXECUTOR_ABSENT_LOOKS:
                await self._bring_back(plan)
                absent = 0
            await asyncio.sleep(POLL_SECONDS)

    async def _bring_back(self, plan: RunPlan) -> None:
        """Start the executor unless it is there."""
        if await asyncio.to_thread(self._conductor.executor_runs):
            return
        log.info("starting the executor")
        try:
            await self._conductor.hand_over(plan)
        except NodeUpgradeError as error:
            log.warning("cannot start the executor; trying again", error=str(error))

    async def _pass_on_abort(self, attempt: RunId) -> None:
        try:
            task = await self._kube.get_task(self._settings.task)
        except NotFoundError:
            return
        except NodeUpgradeError as error:
            log.info("cannot reach the API server; the run goes on", error=str(error))
            return
        if _is_late(task) or task.spec.action is TaskAction.ABORT:
            await asyncio.to_thread(self._runs.request_abort, attempt)

    async def _pass_on_deletions(self, attempt: RunId) -> None:
        """Tell the executor, if it asks, which pods were deleted, lest it take their end for the kubelet's doing."""
        if not self._runs.deleted_pods_wanted(attempt):
            return
        try:
            pods = await asyncio.wait_for(self._kube.list_pods_on_node(self._settings.node), TELL_SECONDS)
        except (NodeUpgradeError, TimeoutError):
            return
        deleted = [PodUid(pod["metadata"]["uid"]) for pod in pods if was_deleted(pod)]
        try:
            await asyncio.to_thread(self._runs.report_deleted, attempt, deleted)
        except OSError as error:
            log.info("cannot pass on which pods were deleted", error=str(error))

    async def tell(self, status: TaskStatus) -> None:
        """Write the task's status if it says something new; the run does not depend on it."""
        status = self._timed(status)
        if status == self._told:
            return
        try:
            await asyncio.wait_for(self._kube.patch_task_status(self._settings.task, status), TELL_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("cannot tell the task yet", error=str(error))
            if status.phase.terminal:
                self._told = status
            return
        self._told = status

    async def _tell_for_sure(self, status: TaskStatus) -> None:
        """Write a status that must be known, however long the API server is away."""
        while True:
            self._told = None
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
            finished = self._told.finished_at if self._told else None
            return replace(status, finished_at=finished or datetime.now(UTC))
        return status

    def _never_started(self) -> TaskStatus:
        return failed_status(self._settings.run_id, Reason.ABORTED, "aborted before anything was touched")


class _Released(Exception):
    """The task is gone or asks for another run."""


def _may_begin(task: Task, action: TaskAction) -> bool:
    return task.spec.action is action and task.spec.verdict is None and not _is_late(task)


def _is_late(task: Task) -> bool:
    return task.spec.deadline is not None and datetime.now(UTC) > task.spec.deadline


def _worth_another_attempt(journal: Journal) -> bool:
    """Whether containers changed between plan and stop, so that the next plan may fit.

    Those that ended then are in the report; nothing had been touched, so that was not our doing.
    """
    match report_of(journal):
        case RunReport(outcome=Outcome.ROLLED_BACK, reason=Reason.INVENTORY_CHANGED):
            return True
        case _:
            return False
