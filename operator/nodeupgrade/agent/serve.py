"""The agent pod's life: find out where this run stands, move it on, and tell the task until it is over."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from nodeupgrade.adapters.journal import RunStore
from nodeupgrade.agent.conduct import Conductor
from nodeupgrade.agent.guard import Guard
from nodeupgrade.agent.pod_watch import PodWatch
from nodeupgrade.agent.precheck import Precheck
from nodeupgrade.agent.settings import STATE, AgentSettings
from nodeupgrade.agent.task_link import TELL_SECONDS, Released, TaskLink, is_late, may_begin
from nodeupgrade.domain.errors import Inconsistent, NodeUpgradeError
from nodeupgrade.domain.node.departures import was_deleted
from nodeupgrade.domain.node.journal import Journal, Outcome
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.report import RunReport, probes_forgotten_at, report_of
from nodeupgrade.domain.node.task_report import (
    failed_status,
    lingering_status,
    run_status,
    stranded_status,
    unreadable_status,
    with_readiness,
)
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import Task, TaskAction
from nodeupgrade.domain.task_status import TaskStatus
from nodeupgrade.domain.values import PodUid, RunId
from nodeupgrade.engine.node import Host
from nodeupgrade.ports.kube import NodeSideKube

ATTEMPTS = 3
POLL_SECONDS = 0.5
LOOK_AT_TASK_EVERY = 10
EXECUTOR_ABSENT_LOOKS = 60
LONGEST_EXPOSURE = timedelta(minutes=10)
"""How long a node is kept for the sake of pods that are probed very seldom."""

log = structlog.get_logger()


class Agent:
    """Serves one task, for one run."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: Host) -> None:
        self._settings = settings
        self._kube = kube
        self._runs = RunStore(settings.on_host(STATE / "runs"))
        self._guard = Guard(settings, kube, host)
        self._pods = PodWatch(settings, kube)
        self._link = TaskLink(settings, kube, self._completed)
        self._conductor = Conductor(settings, kube, host, self._runs, self._link.tell)
        self._precheck = Precheck(settings, kube, host, self._runs, self._link.tell)

    async def serve(self) -> None:
        """Do what the task asks; return when its status is terminal and told."""
        try:
            task = await self._link.read()
            status = await (self._look_only(task) if task.spec.action is TaskAction.PRECHECK else self._run(task))
        except Released:
            log.info("this run is not asked for any more", run=self._settings.run_id)
            return
        except Inconsistent as error:
            log.critical("a human is needed", error=str(error))
            status = unreadable_status(self._settings.run_id, str(error))
        finally:
            await self._pods.end()
        await self._link.tell_for_sure(status)

    async def _look_only(self, task: Task) -> TaskStatus:
        """Report what an upgrade would do.

        Raises:
            Released: by now, nobody wants to know.
        """
        if not may_begin(task, TaskAction.PRECHECK):
            return self._never_started()
        status = await self._precheck.report(task)
        await self._link.read()
        return status

    async def _run(self, task: Task) -> TaskStatus:
        self._pods.recall(task.reported.containers.readiness_flaps)
        for number in range(1, ATTEMPTS):
            status = await self._attempt(task, RunId(f"{self._settings.run_id}.{number}"), last=False)
            if status is not None:
                return status
            task = await self._link.read()
        status = await self._attempt(task, RunId(f"{self._settings.run_id}.{ATTEMPTS}"), last=True)
        assert status is not None  # noqa: S101 - the last attempt is final
        return status

    async def _attempt(self, task: Task, attempt: RunId, *, last: bool) -> TaskStatus | None:
        """Carry one attempt to its end.

        Returns:
            The terminal status, or ``None`` when containers came or went at the wrong moment and the next
            attempt may find them settled.
        """
        plan = await asyncio.to_thread(self._runs.read_plan, attempt)
        self._guard.recall(await asyncio.to_thread(self._runs.read_guard, attempt))
        if plan is None:
            if not may_begin(task, TaskAction.UPGRADE):
                return self._never_started()
            plan = await self._conductor.prepare(task, attempt)
        if plan is None:
            return self._link.told
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
        status = run_status(self._settings.run_id, plan, journal)
        lingered_until = await self._linger(plan, journal)
        return status if lingered_until is None else replace(status, finished_at=lingered_until)

    async def _begin(self, plan: RunPlan, journal: Journal) -> TaskStatus | None:
        """Start the executor, if the run is still wanted and the pods are guarded as they have to be.

        The control plane takes a run that nobody ever spoke of for one that touched nothing, and may call it off
        until then. So be heard first, and listen after that.

        Returns:
            The terminal status when nothing was started and never will be.

        Raises:
            Released: likewise, and nobody wants to know.
        """
        await self._link.tell_for_sure(run_status(self._settings.run_id, plan, journal))
        try:
            obstacle = await self._obstacle(plan)
            if obstacle is None:
                await self._hand_over(plan, journal)
                return None
        except Released:
            await self._withdrawn(plan)
            raise
        except NodeUpgradeError as error:
            log.warning("cannot hand over", error=str(error))
            obstacle = self._failed(Reason.STEP_FAILED, str(error))
        return obstacle if await self._withdrawn(plan) else None

    async def _obstacle(self, plan: RunPlan) -> TaskStatus | None:
        """Get the guard if it is wanted, and say what forbids to go on.

        A plan that was handed over already is past that: an executor may be at work on it.

        Raises:
            Released: nobody asks for the run any more.
            StepFailed: the executor cannot be brought onto the node.
        """
        task = await self._link.read()
        if not may_begin(task, TaskAction.UPGRADE):
            return self._never_started()
        if not task.spec.guard.wanted or await asyncio.to_thread(self._conductor.handed_over, plan):
            return None
        await self._conductor.bring_bundle()  # before asking, since an answer is good for a short time
        task = await self._guard.obtain(plan, self._link)
        if not may_begin(task, TaskAction.UPGRADE):
            return self._never_started()
        if self._guard.lacking(task):
            return self._failed(Reason.READINESS_GUARD_UNAVAILABLE, self._guard.report.detail)
        return None

    async def _hand_over(self, plan: RunPlan, journal: Journal) -> None:
        await self._pods.begin()
        await asyncio.to_thread(self._runs.write_guard, plan.run_id, self._guard.report)
        await self._link.tell(run_status(self._settings.run_id, plan, journal))
        await self._conductor.hand_over(plan)

    async def _withdrawn(self, plan: RunPlan) -> bool:
        """Take the plan back, unless an executor has begun: then it has to come to an end."""
        if await self._conductor.withdraw(plan):
            return True
        await self._bring_back(plan)
        return False

    async def _watch(self, plan: RunPlan, attempt: RunId) -> Journal:
        """Tell the task what the journal says until it says that the run is over, or the executor gives up."""
        await self._pods.begin()
        absent = 0
        looks = 0
        while True:
            journal = await asyncio.to_thread(self._runs.read_journal, attempt)
            if journal.finished is not None or self._runs.trouble(attempt) is not None:
                return journal
            await self._link.tell(run_status(self._settings.run_id, plan, journal))
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

    async def _linger(self, plan: RunPlan, journal: Journal) -> datetime | None:
        """Watch the pods until the kubelet that runs now has probed them all, unless somebody calls it off.

        Returns:
            When that was; ``None`` if there is nothing to wait for.
        """
        started = probes_forgotten_at(plan, journal)
        if started is None:
            return None
        await self._pods.begin()
        clock = self._conductor.clock(plan)
        exposure = min(self._pods.flaps.exposure, LONGEST_EXPOSURE)
        left = min(started + exposure - clock.now(), exposure).total_seconds()
        end, looks = clock.monotonic() + left, 0
        while clock.monotonic() < end:
            await self._link.tell(lingering_status(self._settings.run_id, plan, journal))
            await asyncio.sleep(POLL_SECONDS)
            looks += 1
            if looks % LOOK_AT_TASK_EVERY == 0 and await self._called_off():
                break
        await self._pods.look()
        return clock.now()

    async def _called_off(self) -> bool:
        task = await self._link.glance()
        return task is not None and (is_late(task) or task.spec.action is not TaskAction.UPGRADE)

    async def _pass_on_abort(self, attempt: RunId) -> None:
        task = await self._link.glance()
        if task is not None and (is_late(task) or task.spec.action is TaskAction.ABORT):
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

    def _never_started(self) -> TaskStatus:
        return failed_status(self._settings.run_id, Reason.ABORTED, "aborted before anything was touched")

    def _failed(self, reason: Reason, why: str) -> TaskStatus:
        return failed_status(self._settings.run_id, reason, f"{why}; the node is untouched")

    def _completed(self, status: TaskStatus) -> TaskStatus:
        return with_readiness(status, self._pods.flaps, self._guard.report, self._pods.trouble)


def _worth_another_attempt(journal: Journal) -> bool:
    """Whether containers changed between plan and stop, so that the next plan may fit.

    Those that ended then are in the report; nothing had been touched, so that was not our doing.
    """
    match report_of(journal):
        case RunReport(outcome=Outcome.ROLLED_BACK, reason=Reason.INVENTORY_CHANGED):
            return True
        case _:
            return False
