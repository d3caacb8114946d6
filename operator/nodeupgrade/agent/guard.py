"""Obtains the readiness guard before the kubelet is stopped: ask for it, await the answer, check that it is in force.

The control plane raises the guard, but it takes effect only once every API server has loaded it. The guard denies
requests of kubelets only, so it is checked with dry runs as the node's own kubelet. Nothing has been touched by then,
and the run can still be called off as usual.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from uuid import uuid4

import structlog

from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.agent.task_reporter import TaskReporter, may_begin
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import GuardReport, GuardState
from nodeupgrade.domain.errors import NodeUpgradeError, StepFailed, Transient
from nodeupgrade.domain.node.cluster import Trial, exposure_seconds, node_trial, pod_trials
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.task_report import staged_status
from nodeupgrade.engine.node.node import Host
from nodeupgrade.ports.kube import NodeSideKube, UnavailableError
from nodeupgrade.ports.kubelet import AsKubelet

LOOK_SECONDS = 1.0
TRY_SECONDS = 15.0
"""How long an API server may take to load a raised guard; a second is usual."""
FRESH_SECONDS = 20.0
"""Maximum age of an answer at which the handover still fits into the time that the control plane allows for it."""
IN_FORCE = ""

log = structlog.get_logger()


class Guard:
    """Obtains the guard of one node.

    Attributes:
        report: the state of the guard, as reported in the task's status.
    """

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: Host) -> None:
        self._settings = settings
        self._kube = kube
        self._host = host
        self.report = GuardReport()

    def recall(self, report: GuardReport) -> None:
        """Restore the report that was recorded when the plan was handed over."""
        self.report = report

    def lacking(self, task: Task) -> bool:
        """Report whether the run must not go on because a required guard is not in force."""
        required = task.spec.verify.readiness_guard is GuardPolicy.REQUIRE
        return required and task.spec.guard.wanted and self.report.state is not GuardState.IN_FORCE

    async def obtain(self, plan: RunPlan, reporter: TaskReporter) -> Task:
        """Ask until the guard is in force or is found unavailable; `report` says which.

        Returns:
            The task as read last. If that calls the run off, `report` is inconclusive.

        Raises:
            Released: the task does not ask for the run any more.
        """
        clock = self._host.clock
        while True:
            await self._ask(plan, reporter)
            asked, task = clock.monotonic(), await reporter.read()
            while may_begin(task, TaskAction.UPGRADE) and task.spec.guard.answers != self.report.ask:
                await asyncio.sleep(LOOK_SECONDS)
                asked, task = clock.monotonic(), await reporter.read()
            if not may_begin(task, TaskAction.UPGRADE):
                return task
            if task.spec.guard.kubelet_runs_by is None:
                self._conclude("the control plane cannot raise it")
                return task
            lack = await self._try_until_in_force(plan) if clock.monotonic() - asked < FRESH_SECONDS else None
            task = await reporter.read()
            if lack or (lack == IN_FORCE and clock.monotonic() - asked < FRESH_SECONDS):
                self._conclude(lack)
                return task
            log.info("the guard was raised too long ago; asking again")

    async def _ask(self, plan: RunPlan, reporter: TaskReporter) -> None:
        try:
            exposure = exposure_seconds(await self._kube.list_pods_on_node(self._settings.node))
        except NodeUpgradeError as error:
            log.info("cannot tell how long pods will be unprobed", error=str(error))
            exposure = 0
        self.report = GuardReport(state=GuardState.ASKED, ask=uuid4().hex, exposure_seconds=exposure)
        await reporter.report_until_accepted(staged_status(self._settings.run_id, plan))

    def _conclude(self, lack: str) -> None:
        log.info("tried the readiness guard", lack=lack)
        state = GuardState.NOT_IN_FORCE if lack else GuardState.IN_FORCE
        self.report = replace(self.report, state=state, detail=lack)

    async def _try_until_in_force(self, plan: RunPlan) -> str | None:
        """Try the guard until it is in force or the time is up.

        Returns:
            IN_FORCE, what is missing, or ``None`` if the API server did not answer.
        """
        clock = self._host.clock
        end = clock.monotonic() + TRY_SECONDS
        if plan.kubeconfig is None:
            return "it cannot be tried, because the kubelet has no kubeconfig"
        while True:
            lack: str | None
            try:
                pods = await self._kube.list_pods_on_node(self._settings.node)
                lack = await asyncio.to_thread(self._try, PurePosixPath(plan.kubeconfig), pod_trials(pods))
            except StepFailed as error:
                return f"it cannot be tried as the kubelet: {error}"
            except UnavailableError as error:
                log.info("cannot try the readiness guard yet", error=str(error))
                lack = None
            except NodeUpgradeError as error:
                lack = f"it cannot be tried: {error}"
            if lack == IN_FORCE or clock.monotonic() >= end:
                return lack
            await asyncio.sleep(LOOK_SECONDS)

    def _try(self, kubeconfig: PurePosixPath, pods: Sequence[Trial]) -> str:
        """Try the guard once, on the Node and on one pod, if any pod can be guarded.

        Raises:
            StepFailed: the kubelet's credentials are not available.
        """
        kubelet = self._host.as_kubelet(kubeconfig)
        return _any_denied(kubelet, [node_trial(self._settings.node)]) or _any_denied(kubelet, pods)


def _any_denied(kubelet: AsKubelet, trials: Sequence[Trial]) -> str:
    """Return IN_FORCE if the guard denies one of these or there are none; otherwise what is missing for the first."""
    lacks = []
    for trial in trials:
        try:
            answer = kubelet.try_patch(trial.path, trial.patch)
        except Transient as error:
            return str(error)
        if (lack := trial.lack(answer.status, answer.text)) == IN_FORCE:
            return IN_FORCE
        lacks.append(lack)
    return lacks[0] if lacks else IN_FORCE
