"""From a plan on the disk to the end of its journal: hand it over, and tell the task how it goes.

Until the executor has written its first record the plan can be taken back, and is as soon as nobody wants it any more,
its time is up, or the executor does not come. After that only the executor turns it back, when it is asked to.
"""

import asyncio

import structlog

from nodeupgrade.agent.guard import Guard
from nodeupgrade.agent.host.executor_service import ExecutorService
from nodeupgrade.agent.pod_watch import PodWatch
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.agent.task_reporter import TELL_SECONDS, Released, TaskReporter, is_late, may_begin
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.node.evidence.departures import was_deleted
from nodeupgrade.domain.node.hashes.rewriting import newcomers
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.journal import Journal
from nodeupgrade.domain.node.run.task_report import AND_UNTOUCHED, failed_status, not_started_status, run_status
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.kubelethash import HashError
from nodeupgrade.ports.kube import NodeSideKube
from nodeupgrade.ports.runs import AgentRuns

POLL_SECONDS = 0.5
LOOK_AT_TASK_EVERY = 10
EXECUTOR_ABSENT_LOOKS = 60

log = structlog.get_logger()


class Handover:
    """Attends to one attempt at a time."""

    def __init__(
        self,
        settings: AgentSettings,
        kube: NodeSideKube,
        *,
        runs: AgentRuns,
        executor: ExecutorService,
        reporter: TaskReporter,
        guard: Guard,
        pods: PodWatch,
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._runs = runs
        self._executor = executor
        self._reporter = reporter
        self._guard = guard
        self._pods = pods

    async def begin(self, plan: RunPlan) -> TaskStatus | None:
        """Start the executor, if the run is still wanted and the pods are guarded as they have to be.

        The control plane takes a run that nobody ever spoke of for one that touched nothing, and may call it off
        until then. So be heard first, and listen after that.

        Returns:
            The terminal status when nothing was started and never will be.

        Raises:
            Released: likewise, and nobody wants to know.
        """
        await self._reporter.tell_for_sure(self._before(plan))
        try:
            obstacle = await self._obstacle(plan)
            if obstacle is None:
                await self._hand_over(plan)
                return None
        except Released:
            await self._executor.withdraw(plan)
            raise
        except NodeUpgradeError as error:
            log.warning("cannot hand over", error=str(error))
            obstacle = self._failed(Reason.STEP_FAILED, str(error))
        return obstacle if await self._executor.withdraw(plan) else None

    async def watch(self, plan: RunPlan, attempt: RunId) -> Journal | TaskStatus:
        """Tell the task what the journal says until it says that the run is over, or the executor gives up.

        Returns:
            The journal, or the terminal status when the plan was taken back.

        Raises:
            Released: the plan was taken back, and nobody wants to know.
        """
        await self._pods.begin()
        absent = looks = 0
        lack = ""
        while True:
            journal = await asyncio.to_thread(self._runs.read_journal, attempt)
            if journal.finished is not None or self._runs.trouble(attempt) is not None:
                return journal
            await self._reporter.tell(self._standing(plan, journal, lack))
            await self._answer(plan, attempt)
            looks += 1
            if looks % LOOK_AT_TASK_EVERY == 0:
                absent = 0 if await asyncio.to_thread(self._executor.runs) else absent + LOOK_AT_TASK_EVERY
                lost = absent >= EXECUTOR_ABSENT_LOOKS
                lack = await asyncio.to_thread(self._executor.state) if absent else ""
                task = await self._reporter.glance()
                await self._pass_on_abort(task, attempt)
                if (
                    not journal.records
                    and (status := await self._taken_back(plan, task, lack if lost else "")) is not None
                ):
                    return status
                if lost:
                    await self._executor.bring_back(plan)
                    absent = 0
            await asyncio.sleep(POLL_SECONDS)

    def never_started(self) -> TaskStatus:
        """The run was called off in time."""
        return failed_status(self._settings.run_id, Reason.ABORTED, "aborted before anything was touched")

    async def _obstacle(self, plan: RunPlan) -> TaskStatus | None:
        """Get the guard if it is wanted, and say what forbids to go on.

        A plan that was handed over already is past that: an executor may be at work on it.

        Raises:
            Released: nobody asks for the run any more.
            StepFailed: the executor cannot be brought onto the node.
        """
        task = await self._reporter.read()
        if not may_begin(task, TaskAction.UPGRADE):
            return self.never_started()
        if not task.spec.guard.wanted or await asyncio.to_thread(self._executor.handed_over, plan):
            return None
        await self._executor.bring_bundle()  # before asking, since an answer is good for a short time
        task = await self._guard.obtain(plan, self._reporter)
        if not may_begin(task, TaskAction.UPGRADE):
            return self.never_started()
        if self._guard.lacking(task):
            return self._failed(Reason.READINESS_GUARD_UNAVAILABLE, self._guard.report.detail)
        return None

    async def _hand_over(self, plan: RunPlan) -> None:
        await self._pods.begin()
        await asyncio.to_thread(self._runs.write_guard, plan.run_id, self._guard.report)
        await self._reporter.tell(self._before(plan))
        await self._executor.hand_over(plan)

    async def _taken_back(self, plan: RunPlan, task: Task | None, lack: str) -> TaskStatus | None:
        """Take a plan back that nobody has begun, if there is a reason to; if that fails, there will be another try.

        Args:
            lack: how the executor's unit is, if it has not come for too long.

        Raises:
            Released: it was taken back, and nobody wants to know.
        """
        wanted = task is not None and may_begin(task, TaskAction.UPGRADE)
        if wanted and not lack:
            return None
        try:
            if not await self._executor.withdraw(plan):
                return None
        except NodeUpgradeError as error:
            log.warning("cannot take the run back yet", error=str(error))
            return None
        if task is None:
            raise Released
        if wanted:
            return self._failed(Reason.EXECUTOR_UNAVAILABLE, f"systemd did not start the executor: {lack}")
        return self.never_started()

    async def _pass_on_abort(self, task: Task | None, attempt: RunId) -> None:
        if task is None or not (is_late(task) or task.spec.action is TaskAction.ABORT):
            return
        try:
            await asyncio.to_thread(self._runs.request_abort, attempt)
        except OSError as error:
            log.warning("cannot pass on that the run is called off", error=str(error))

    async def _answer(self, plan: RunPlan, attempt: RunId) -> None:
        """Tell the executor, if it asks, which pods were deleted, and which came after the planning.

        The end of the ones is not the kubelet's doing; the hashes of the others nobody on the node could compute.
        """
        deletions, arrivals = self._runs.deleted_pods_wanted(attempt), self._runs.newcomers_wanted(attempt)
        if not (deletions or arrivals):
            return
        try:
            pods = await asyncio.wait_for(self._kube.list_pods_on_node(self._settings.node), TELL_SECONDS)
        except (NodeUpgradeError, TimeoutError):
            return
        try:
            if deletions:
                deleted = [PodUid(pod["metadata"]["uid"]) for pod in pods if was_deleted(pod)]
                await asyncio.to_thread(self._runs.report_deleted, attempt, deleted)
            if arrivals:
                new = newcomers(plan, map(parse_pod, pods))
                await asyncio.to_thread(self._runs.report_newcomers, attempt, new)
        except (OSError, HashError) as error:
            log.info("cannot tell the executor of the node's pods", error=str(error))

    def _standing(self, plan: RunPlan, journal: Journal, lack: str) -> TaskStatus:
        if lack and not journal.records:
            return not_started_status(self._settings.run_id, plan, lack)
        return run_status(self._settings.run_id, plan, journal)

    def _before(self, plan: RunPlan) -> TaskStatus:
        return run_status(self._settings.run_id, plan, Journal())

    def _failed(self, reason: Reason, why: str) -> TaskStatus:
        return failed_status(self._settings.run_id, reason, f"{why}{AND_UNTOUCHED}")
