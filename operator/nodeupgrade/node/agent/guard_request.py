"""Obtains the readiness guard before the kubelet is stopped: ask for it, await the answer, check that it is in force.

The control plane raises the guard, which takes effect once every API server has loaded it. The guard denies requests of
kubelets only, so it is checked with dry runs as the node's kubelet. Nothing is touched by then, and the run can still
be called off.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from uuid import uuid4

import structlog

from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import GuardReport, GuardState
from nodeupgrade.cluster.kube_api import NodeSideKube, UnavailableError
from nodeupgrade.errors import NodeUpgradeError, StepFailed, Transient
from nodeupgrade.node.agent.guard_trials import InForce, NotInForce, Trial, node_trial, pod_trials
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.task_reporter import TaskReporter
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.running_kubelet.kubelet import AsKubelet
from nodeupgrade.node.task_status.task_status import staged_status
from nodeupgrade.node.verification.readiness_flaps import exposure_seconds

LOOK_SECONDS = 1.0
TRY_SECONDS = 15.0
"""How long an API server may take to load a raised guard; a second is usual."""
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
            asked, task = clock.monotonic(), await reporter.read()
            while reporter.may_begin(task, TaskAction.UPGRADE) and task.spec.guard.answers != self.report.ask:
                await asyncio.sleep(LOOK_SECONDS)
                asked, task = clock.monotonic(), await reporter.read()
            if not reporter.may_begin(task, TaskAction.UPGRADE):
                return task
            if task.spec.guard.kubelet_runs_by is None:
                self._conclude(NotInForce("the control plane cannot raise it"))
                return task
            fresh = clock.monotonic() - asked < FRESH_SECONDS
            answer = await self._try_until_in_force(plan) if fresh else None
            task = await reporter.read()
            if isinstance(answer, NotInForce) or (answer is not None and clock.monotonic() - asked < FRESH_SECONDS):
                self._conclude(answer)
                return task
            log.info("guard_answer_too_old")

    async def _ask(self, plan: RunPlan, reporter: TaskReporter) -> None:
        try:
            exposure = exposure_seconds(await self.kube.list_pods_on_node(self.settings.node))
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

    async def _try_until_in_force(self, plan: RunPlan) -> InForce | NotInForce | None:
        """Try the guard until it is in force or the time is up; ``None`` if the API server does not answer."""
        clock = self.host.clock
        end = clock.monotonic() + TRY_SECONDS
        if plan.kubeconfig is None:
            return NotInForce("it cannot be tried, because the kubelet has no kubeconfig")
        while True:
            answer: InForce | NotInForce | None
            try:
                pods = await self.kube.list_pods_on_node(self.settings.node)
                path = PurePosixPath(plan.kubeconfig)
                answer = await asyncio.to_thread(self._try, path, plan.swap.unit, pod_trials(pods))
            except StepFailed as error:
                return NotInForce(f"it cannot be tried as the kubelet: {error}")
            except UnavailableError as error:
                log.info("guard_trial_failed", error=str(error))
                answer = None
            except NodeUpgradeError as error:
                answer = NotInForce(f"it cannot be tried: {error}")
            if isinstance(answer, InForce) or clock.monotonic() >= end:
                return answer
            await asyncio.sleep(LOOK_SECONDS)

    def _try(self, kubeconfig: PurePosixPath, unit: str, pods: Sequence[Trial]) -> InForce | NotInForce:
        """Try the guard once, on the Node and on one pod, if any pod can be guarded.

        Raises:
            StepFailed: the kubelet's credentials are not available.
            Transient: systemd does not report the kubelet's process, or that process is gone.
        """
        try:
            pid = self.host.services.status(unit).main_pid
        except StepFailed as error:  # a busy systemd is no objection to the credentials
            raise Transient(str(error)) from error
        kubelet = self.host.as_kubelet(kubeconfig, pid)
        of_node = _any_denied(kubelet, [node_trial(self.settings.node)])
        return of_node if isinstance(of_node, NotInForce) else _any_denied(kubelet, pods)


def _any_denied(kubelet: AsKubelet, trials: Sequence[Trial]) -> InForce | NotInForce:
    """Return whether the guard denies one of these, or there are none; if not, why it does not deny the first."""
    first: NotInForce | None = None
    for trial in trials:
        try:
            response = kubelet.try_patch(trial.path, trial.patch)
        except Transient as error:
            return NotInForce(str(error))
        match trial.judge(response.status, response.text):
            case InForce() as denied:
                return denied
            case NotInForce() as answer:
                first = first or answer
    return first or InForce()
