"""Reports what an upgrade of this node would do, and touches nothing.

It examines the node as a real run does, with the same code. It keeps no state: if the agent is lost, the next one
just starts over.
"""

import asyncio

import structlog

from nodeupgrade.agent.attempt.examine import Examiner, given_up
from nodeupgrade.agent.host.executor_service import not_over
from nodeupgrade.agent.host.files import take
from nodeupgrade.agent.host.staging import borrow, give_back
from nodeupgrade.agent.settings import STATE, AgentSettings
from nodeupgrade.agent.task_reporter import ReportStatus
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import attempt_of
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.domain.errors import Inconsistent, Refused
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.planning import Examination
from nodeupgrade.domain.node.preview import preview
from nodeupgrade.domain.node.request import Replacement
from nodeupgrade.domain.node.run.task_report import prechecked_status, refusal_status
from nodeupgrade.engine.node.facts.readiness import forbids_execution
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.ports.artifacts import Artifacts
from nodeupgrade.ports.kube import NodeSideKube
from nodeupgrade.ports.runs import AgentRuns

log = structlog.get_logger()


class Precheck:
    """Prechecks one node for one task."""

    def __init__(
        self,
        settings: AgentSettings,
        kube: NodeSideKube,
        host: HostView,
        *,
        runs: AgentRuns,
        artifacts: Artifacts,
        report: ReportStatus,
    ) -> None:
        self._settings = settings
        self._artifacts = artifacts
        self._host = host
        self._examiner = Examiner(settings, kube, host)
        self._runs = runs
        self._report_status = report

    async def report(self, task: Task) -> TaskStatus:
        """Examine the node and return what an upgrade would do, or everything that forbids it."""
        run = self._settings.run_id
        message = "looking at the node; nothing is touched"
        await self._report_status(
            TaskStatus(run_id=run, phase=TaskPhase.PRECHECKING, reason=Reason.PROGRESSING, message=message)
        )
        try:
            self._settings.require_approved(task.spec)
            await asyncio.to_thread(self._require_no_run)
            await asyncio.to_thread(self._examiner.program, task)
            examination = await self._examine(task)
            forecast = preview(examination)
        except Refused as refusal:
            return refusal_status(run, (refusal.finding,))
        except Exception as error:
            log.exception("given up")
            return given_up(run, error)
        refusals = (*examination.refusals, *await asyncio.to_thread(self._executor_cannot_run))
        if examination.plan is None or forecast is None or refusals:
            return refusal_status(run, (*refusals, *examination.warnings), forecast)
        return prechecked_status(run, examination.plan, forecast)

    async def _examine(self, task: Task) -> Examination:
        try:
            settings = await self._examiner.informed(task)
            candidate = await asyncio.to_thread(self._borrow, settings, task)
            files = await asyncio.to_thread(take, settings, self._artifacts, task.spec.files)
            return await self._examiner.settled(task, attempt_of(self._settings.run_id, 1), candidate, files)
        finally:
            await asyncio.to_thread(give_back, self._settings)

    def _borrow(self, settings: AgentSettings, task: Task) -> Replacement | Finding:
        """Return the new program; if it cannot be fetched, return that as a finding, and the other checks still run."""
        try:
            return borrow(settings, self._artifacts, self._host, task.spec.artifact)
        except Refused as refusal:
            return refusal.finding

    def _executor_cannot_run(self) -> tuple[Finding, ...]:
        """Return what forbids the executor to run, as far as known without a trial, which would write files."""
        if not forbids_execution(self._host.files, STATE):
            return ()
        detail = f"{STATE} is on a file system that is mounted noexec; remount it with exec"
        return (Finding(reason=Reason.EXECUTOR_UNAVAILABLE, detail=detail),)

    def _require_no_run(self) -> None:
        """Require that no run is going on: the node would be between two states, and an examination meaningless.

        Raises:
            Refused: an earlier run has begun and is not over.
        """
        try:
            run = self._runs.begun()
        except Inconsistent as error:
            raise not_over(error) from error
        if run is not None:
            raise not_over(Inconsistent(f"run {run} has begun and has no end yet"))
