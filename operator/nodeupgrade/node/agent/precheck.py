"""Reports what an upgrade of this node would do, and touches nothing.

It examines the node with the code of a real run. It keeps no state: if the agent is lost, the next one starts over.
"""

import asyncio
from dataclasses import dataclass

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import attempt_of
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.errors import Inconsistent, Refused
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.agent.examine import ExaminationInput, Examiner, technical_failure_status
from nodeupgrade.node.agent.file_staging import read_new_files
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.staging import fetch_for_examination, remove_fetched
from nodeupgrade.node.agent.task_reporter import ReportStatus
from nodeupgrade.node.artifacts.artifacts import Artifacts
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.examination.preview import preview
from nodeupgrade.node.executor.control import earlier_run_refusal
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import HostView
from nodeupgrade.node.plan.request import Replacement
from nodeupgrade.node.task_status.task_status import prechecked_status, refusal_status

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Precheck:
    """Prechecks one node for one task."""

    settings: AgentSettings
    host: HostView
    runs: AgentRuns
    examiner: Examiner
    artifacts: Artifacts
    report_status: ReportStatus

    async def report(self, task: Task) -> TaskStatus:
        """Examine the node and return what an upgrade would do, or everything that forbids it."""
        run = self.settings.run_id
        message = "examining the node; nothing is touched"
        await self.report_status(
            TaskStatus(run_id=run, phase=TaskPhase.PRECHECKING, reason=Reason.PROGRESSING, message=message)
        )
        try:
            self.settings.require_approved(task.spec)
            await asyncio.to_thread(self._require_no_run)
            await asyncio.to_thread(self.examiner.program, task)
            examination = await self._examine(task)
            forecast = preview(examination)
        except Refused as refusal:
            return refusal_status(run, (refusal.finding,))
        except Exception as error:
            log.exception("run_given_up")
            return technical_failure_status(run, error)
        if examination.plan is None or forecast is None:
            return refusal_status(run, examination.findings, forecast, examination.census)
        return prechecked_status(run, examination.plan, forecast)

    async def _examine(self, task: Task) -> Examination:
        try:
            settings = await self.examiner.complete_settings(task)
            candidate = await asyncio.to_thread(self._fetch, settings, task)
            files = await asyncio.to_thread(read_new_files, settings, self.artifacts, task.spec.files)
            attempt = attempt_of(self.settings.run_id, 1)
            return await self.examiner.examine(
                ExaminationInput(task=task, attempt=attempt, replacement=candidate, files=files)
            )
        finally:
            await asyncio.to_thread(remove_fetched, self.settings)

    def _fetch(self, settings: AgentSettings, task: Task) -> Replacement | Finding:
        """Return the new program; if it cannot be fetched, return that as a finding, and the other checks still run."""
        try:
            return fetch_for_examination(settings, self.artifacts, task.spec.artifact)
        except Refused as refusal:
            return refusal.finding

    def _require_no_run(self) -> None:
        """Require that no run is under way: the node would be between two states, and an examination meaningless."""
        try:
            run = self.runs.begun()
        except Inconsistent as error:
            raise earlier_run_refusal(error) from error
        if run is not None:
            raise earlier_run_refusal(f"run {run} has begun and has not ended")
