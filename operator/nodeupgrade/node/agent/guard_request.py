"""Requests the readiness guard before the kubelet is stopped, and awaits the answer. `guard_trials` checks the guard.

The control plane raises the guard, which takes effect once every API server has loaded it. Nothing has been changed by
then, and the run can still be called off.
"""

import asyncio
from dataclasses import dataclass, field, replace
from uuid import uuid4

import structlog

from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import GuardReport, GuardState
from nodeupgrade.cluster.kube_api import NodeSideKube
from nodeupgrade.cluster.pods import for_watch
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.node.agent.guard_trials import InForce, NotInForce, growing_pauses, try_until_in_force
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.task_reporter import TaskReporter
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.task_status.task_status import staged_status
from nodeupgrade.node.verification.readiness_flaps import exposure_seconds

FRESH_SECONDS = 20.0
"""Maximum age of an answer at which the handover still fits into the time that the control plane allows for it."""

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class Guard:
    """Obtains the guard of one node."""

    settings: AgentSettings
    kube: NodeSideKube
    host: Host
    report: GuardReport = field(default_factory=GuardReport)  # its state, as reported in the task's status

    def forbids_run(self, task: Task) -> bool:
        """Report whether the run must not begin because a required guard is not in force."""
        required = task.spec.verify.readiness_guard is GuardPolicy.REQUIRE
        return required and task.spec.guard.wanted and self.report.state is not GuardState.IN_FORCE

    async def obtain(self, plan: RunPlan, reporter: TaskReporter) -> Task:
        """Ask until the guard is in force or is found unavailable; `report` says which.

        Returns:
            The task as read last. If that calls the run off, `report` is inconclusive.

        Raises:
            NoLongerWanted: the task does not ask for the run any more.
        """
        clock = self.host.clock
        while True:
            await self._ask(plan, reporter)
            asked, task, pauses = clock.monotonic(), await reporter.read(), growing_pauses()
            while reporter.may_begin(task, TaskAction.UPGRADE) and task.spec.guard.answers != self.report.ask:
                await asyncio.sleep(next(pauses))
                asked, task = clock.monotonic(), await reporter.read()
            if not reporter.may_begin(task, TaskAction.UPGRADE):
                return task
            if task.spec.guard.kubelet_runs_by is None:
                self._conclude(NotInForce("the control plane cannot raise it"))
                return task
            fresh = clock.monotonic() - asked < FRESH_SECONDS
            answer = await try_until_in_force(self.host, self.kube, self.settings.node, plan) if fresh else None
            task = await reporter.read()
            if isinstance(answer, NotInForce) or (answer is not None and clock.monotonic() - asked < FRESH_SECONDS):
                self._conclude(answer)
                return task
            log.info("guard_answer_too_old")

    async def _ask(self, plan: RunPlan, reporter: TaskReporter) -> None:
        try:
            exposure = exposure_seconds(await self.kube.list_pods_on_node(self.settings.node, for_watch))
        except NodeUpgradeError as error:
            log.info("exposure_unknown", error=str(error))
            exposure = 0
        self.report = GuardReport(state=GuardState.ASKED, ask=uuid4().hex, exposure_seconds=exposure)
        await reporter.report_until_accepted(staged_status(self.settings.run_id, plan))

    def _conclude(self, answer: InForce | NotInForce) -> None:
        detail = answer.why if isinstance(answer, NotInForce) else ""
        state = GuardState.NOT_IN_FORCE if isinstance(answer, NotInForce) else GuardState.IN_FORCE
        log.info("guard_tried", state=state.value, detail=detail)
        self.report = replace(self.report, state=state, detail=detail)
