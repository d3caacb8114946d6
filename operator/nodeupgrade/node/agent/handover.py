"""Hands a plan over to the executor and reports the run's progress to the task until its journal ends.

Until the executor writes its first record, the agent withdraws the plan if the task no longer asks for the run, its
deadline passes, or the executor does not start. After that, only the executor can roll the run back, on request.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.kube_api import NodeSideKube, NotFoundError
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.owner_changes import Planned
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import Inconsistent, NodeUpgradeError, Refused
from nodeupgrade.kubelethash import HashError
from nodeupgrade.node.agent.arrivals import ArrivalPlanner
from nodeupgrade.node.agent.guard_request import Guard
from nodeupgrade.node.agent.pod_watch import PodWatch
from nodeupgrade.node.agent.preparation import Prepared
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.task_reporter import REQUEST_SECONDS, NoLongerWanted, TaskReporter
from nodeupgrade.node.executor.control import ExecutorService
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.hash_rewriting import for_newcomers, newcomers
from nodeupgrade.node.plan.plan import RunPlan, ShownKubelet
from nodeupgrade.node.run.state_machine import undone_in_vain
from nodeupgrade.node.task_status.run_status import run_status
from nodeupgrade.node.task_status.task_status import AND_UNTOUCHED, failed_status, not_started_status, refusal_status

POLL_SECONDS = 0.5
LOOKS_FOR_ARRIVALS = 10
"""How often to look for a question of the executor between two reports."""
READ_TASK_EVERY = 10
ABSENT_POLLS = 60
EXAMINATION_LASTS = timedelta(minutes=3)
"""Maximum age of an examination at which its plan may begin; staging a bundle on a slow disk takes part of it."""

log = structlog.get_logger()


class OutdatedError(Exception):
    """The plan was withdrawn, because the node may have changed since its examination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Hands over and watches one attempt at a time."""

    settings: AgentSettings
    kube: NodeSideKube
    runs: AgentRuns
    executor: ExecutorService
    reporter: TaskReporter
    guard: Guard
    pods: PodWatch
    host: Host

    async def begin(self, prepared: Prepared) -> TaskStatus | None:
        """Start the executor, if the task still asks for the run and a required readiness guard is in force.

        The control plane assumes that a run without a status has touched nothing, and may call it off. So the status is
        reported before the task is read.

        Returns:
            The terminal status if nothing was started and never will be.

        Raises:
            NoLongerWanted: nothing was started, and the task does not ask for the run any more.
            OutdatedError: nothing was started, and the node has to be examined again.
        """
        plan = prepared.plan
        try:
            await self._require_recent(prepared)
            await self.reporter.report_until_accepted(self._planned_status(plan))
            refusal = await self._refusal(prepared)
            if refusal is None:
                await self._hand_over(plan)
                return None
        except NoLongerWanted:
            await self.executor.withdraw(plan)
            raise
        except OutdatedError:
            log.info("examination_outdated", examined_at=plan.examined_at)
            if await self.executor.withdraw(plan):
                raise
            return None
        except Refused as error:
            refusal = refusal_status(self.settings.run_id, (error.finding,))
        except NodeUpgradeError as error:
            log.warning("handover_failed", error=str(error))
            refusal = self._failed(Reason.STEP_FAILED, str(error))
        return refusal if await self.executor.withdraw(plan) else None

    async def watch(self, prepared: Prepared) -> Journal | TaskStatus:
        """Report what the journal says until the run is over or needs a person.

        Returns:
            The journal, or the terminal status if the plan was withdrawn.

        Raises:
            NoLongerWanted: the plan was withdrawn, and the task does not ask for the run any more.
            Inconsistent: the journal of a run is gone or cannot be read, and no executor writes it again.
        """
        await self.pods.begin()
        plan, arrivals = prepared.plan, ArrivalPlanner(self.runs, self.kube, self.settings.node, self.host, prepared)
        absent = polls = 0
        unit_state, known, began = "", Journal(), self.host.clock.monotonic()
        while True:
            problem = None
            try:
                found = await asyncio.to_thread(self.runs.read_journal, plan.run_id)
                if len(found.records) < len(known.records):
                    problem = Inconsistent(f"somebody has removed the journal of run {plan.run_id}")
            except Inconsistent as error:
                found, problem = known, error
            journal = known = found if problem is None else known
            if journal.finished is not None:
                return journal
            if self.why_stuck(plan, journal, since=began):
                await self._answer_executor(plan, journal, leaving=True)
                return journal
            await self.reporter.report(self._status(plan, journal, unit_state))
            await self._answer_executor(plan, journal)
            if journal.mark(Step.AWAIT_NODE_STATUS) is Mark.DOING:
                await self._report_kubelet(plan.run_id)
            polls += 1
            if polls % READ_TASK_EVERY == 0:
                absent = 0 if await asyncio.to_thread(self.executor.runs) else absent + READ_TASK_EVERY
                lost = absent >= ABSENT_POLLS
                unit_state = await asyncio.to_thread(self.executor.state) if absent else ""
                task = await self.reporter.read_or_recall()
                await self._forward_abort(task, plan.run_id)
                reason = unit_state if lost else ""
                if not journal.records and (status := await self._withdraw_unwanted(plan, task, reason)) is not None:
                    return status
                if lost:
                    if problem is not None:
                        raise problem
                    await self.executor.ensure_running(plan)
                    absent = 0
            await self._pause(journal, arrivals)

    def why_stuck(self, plan: RunPlan, journal: Journal, *, since: float = 0.0) -> str:
        """Return why a run that is not over needs a person: its executor stopped, or an undo fails; else empty.

        What failed before ``since`` is tried again first: the cause may be gone.
        """
        if (trouble := self.runs.trouble(plan.run_id)) is not None:
            return f"the executor stopped: {trouble}"
        if journal.last is None or journal.last.monotonic < since:
            return ""
        in_vain = undone_in_vain(journal, self.host.clock.boot(), self.host.clock.monotonic())
        return f"{in_vain}; it is tried again every minute" if in_vain else ""

    def never_started(self) -> TaskStatus:
        """Return the status of a run that was called off before it began."""
        return failed_status(self.settings.run_id, Reason.ABORTED, "aborted before anything was touched")

    async def _refusal(self, prepared: Prepared) -> TaskStatus | None:
        """Obtain the guard if the task wants it, and return the terminal status if the run must not begin.

        A plan that was already handed over is not checked again: an executor may be carrying it out.

        Raises:
            NoLongerWanted: the task does not ask for the run any more.
            OutdatedError: the node has to be examined again.
            StepFailed: the bundle cannot be staged on the node.
        """
        task = await self.reporter.read()
        if not self.reporter.may_begin(task, TaskAction.UPGRADE):
            return self.never_started()
        if await self._require_recent(prepared) or not task.spec.guard.wanted:
            return None
        await asyncio.to_thread(self.executor.stage_bundle)  # before asking, since an answer soon expires
        task = await self.guard.obtain(prepared.plan, self.reporter)
        if not self.reporter.may_begin(task, TaskAction.UPGRADE):
            return self.never_started()
        if self.guard.forbids_run(task):
            return self._failed(Reason.READINESS_GUARD_UNAVAILABLE, self.guard.report.detail)
        await self._require_recent(prepared)
        return None

    async def _require_recent(self, prepared: Prepared) -> bool:
        """Require a recent examination, unless an executor may begin at any moment; report whether one may.

        An executor does not see everything that was examined, such as the Node's labels and taints.

        Raises:
            OutdatedError: nothing was handed over, and this agent has not examined the node, or long ago.
            NodeUpgradeError: systemd does not answer.
        """
        if await asyncio.to_thread(self.executor.handed_over, prepared.plan):
            return True
        examined = None if prepared.examination is None else prepared.examination.facts.at
        if examined is None or self.host.clock.monotonic() - examined > EXAMINATION_LASTS.total_seconds():
            raise OutdatedError
        return False

    async def _hand_over(self, plan: RunPlan) -> None:
        await self.pods.begin()
        await asyncio.to_thread(self.runs.write_guard, plan.run_id, self.guard.report)
        await self.reporter.report(self._planned_status(plan))
        await asyncio.to_thread(self.executor.hand_over, plan)

    async def _withdraw_unwanted(self, plan: RunPlan, task: Task | None, unit_state: str) -> TaskStatus | None:
        """Withdraw a plan that no executor has begun, if there is a reason to; a failure is retried later.

        Args:
            unit_state: state of the executor's unit, if it has been absent for too long; else empty.

        Returns:
            The terminal status if the plan was withdrawn.

        Raises:
            NoLongerWanted: the plan was withdrawn, and the task does not ask for the run any more.
        """
        wanted = task is not None and self.reporter.may_begin(task, TaskAction.UPGRADE)
        if wanted and not unit_state:
            return None
        try:
            if not await self.executor.withdraw(plan):
                return None
        except NodeUpgradeError as error:
            log.warning("run_withdrawal_failed", error=str(error))
            return None
        if task is None:
            raise NoLongerWanted
        if wanted:
            return self._failed(Reason.EXECUTOR_UNAVAILABLE, f"systemd did not start the executor: {unit_state}")
        return self.never_started()

    async def _forward_abort(self, task: Task | None, attempt: RunId) -> None:
        if task is None or not (self.reporter.is_late(task) or task.spec.action is TaskAction.ABORT):
            return
        try:
            await asyncio.to_thread(self.runs.request_abort, attempt)
        except OSError as error:
            log.warning("abort_delivery_failed", error=str(error))

    async def _answer_executor(self, plan: RunPlan, journal: Journal, *, leaving: bool = False) -> None:
        """Report what the watch has seen of owners' changes; list the pods if the executor asks about them.

        A kubelet may act on a change at once, so it is reported unasked. The hashes of new pods cannot be computed on
        the node, which lacks their specs. An executor that goes on without an agent could not ask for them later.
        """
        run, in_effect = plan.run_id, plan_in_effect(plan, journal)
        wants_changes = leaving or self.runs.owner_changes_wanted(run)
        wants_newcomers = leaving or self.runs.newcomers_wanted(run)
        try:
            await self._report_owner_changes(run, in_effect.owned)
        except OSError as error:
            log.info("owner_changes_delivery_failed", error=str(error))
        if not (wants_changes or wants_newcomers):
            return
        try:
            listing = self.kube.list_pods_on_node(self.settings.node, for_newcomers(in_effect))
            listed = await asyncio.wait_for(listing, REQUEST_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("pods_not_listed", error=str(error))
            return
        pods = tuple(map(parse_pod, listed))
        try:
            if wants_changes:
                await self._report_owner_changes(run, in_effect.owned, pods)
            if wants_newcomers:
                await asyncio.to_thread(self.runs.report_newcomers, run, newcomers(in_effect, pods))
        except (OSError, HashError) as error:
            log.info("pod_list_delivery_failed", error=str(error))

    async def _report_owner_changes(self, run: RunId, planned: Planned, listed: tuple[Pod, ...] = ()) -> None:
        before = await asyncio.to_thread(self.runs.owner_changes, run)
        changes = self.pods.owner_changes(planned, before, listed)
        await asyncio.to_thread(self.runs.report_owner_changes, run, changes)

    async def _pause(self, journal: Journal, arrivals: ArrivalPlanner) -> None:
        """Wait until the next report; answer the executor at once, which may have stopped the kubelet."""
        last = journal.last
        goes_on = last is not None and last.mark in {Mark.DOING, Mark.DONE}
        may_ask = goes_on and arrivals.can_answer and journal.mark(Step.CONFIRM_INVENTORY) is None
        for _ in range(LOOKS_FOR_ARRIVALS if may_ask else 1):
            if may_ask:
                await arrivals.answer()
            await asyncio.sleep(POLL_SECONDS / LOOKS_FOR_ARRIVALS if may_ask else POLL_SECONDS)

    async def _report_kubelet(self, run: RunId) -> None:
        """Report to the executor which kubelet the API server shows for the node, if it answers."""
        looked = self.host.clock.awake().seconds
        try:
            node = await asyncio.wait_for(self.kube.get_node(self.settings.node), REQUEST_SECONDS)
            shown = ShownKubelet(at=looked, answered=True, version=view_node(node).kubelet_version)
        except NotFoundError:
            shown = ShownKubelet(at=looked, answered=True)
        except (NodeUpgradeError, TimeoutError) as error:
            log.info("api_server_unreachable", error=str(error))
            shown = ShownKubelet(at=looked, answered=False)
        try:
            await asyncio.to_thread(self.runs.report_kubelet, run, shown)
        except OSError as error:
            log.info("kubelet_report_failed", error=str(error))

    def _status(self, plan: RunPlan, journal: Journal, unit_state: str) -> TaskStatus:
        if unit_state and not journal.records:
            return not_started_status(self.settings.run_id, plan, unit_state)
        return run_status(self.settings.run_id, plan, journal)

    def _planned_status(self, plan: RunPlan) -> TaskStatus:
        return run_status(self.settings.run_id, plan, Journal())

    def _failed(self, reason: Reason, why: str) -> TaskStatus:
        return failed_status(self.settings.run_id, reason, f"{why}{AND_UNTOUCHED}")
