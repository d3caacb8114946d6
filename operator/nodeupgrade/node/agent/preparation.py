"""Prepares one attempt before anything is touched: stage the kubelet, examine the node, plan, try out the executor.

All state is on the node's disk or in the task, so another agent continues where this one was lost.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.errors import NodeUpgradeError, Refused
from nodeupgrade.node.agent.examine import ExaminationInput, Examiner, technical_failure_status
from nodeupgrade.node.agent.file_staging import read_new_files, remove_staged
from nodeupgrade.node.agent.file_staging import stage as stage_files
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.staging import stage
from nodeupgrade.node.agent.task_reporter import ReportStatus
from nodeupgrade.node.artifacts.artifacts import Artifacts
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.executor.control import ExecutorService
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.plan.request import Replacement
from nodeupgrade.node.task_status.task_status import refusal_status

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Prepared:
    """An attempt that may begin."""

    plan: RunPlan  # on the node's disk by now
    # what it was planned from, while this agent lives; None if an earlier agent has planned it
    examination: Examination | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Prepares one attempt at upgrading this node."""

    settings: AgentSettings
    host: Host
    runs: AgentRuns
    executor: ExecutorService
    examiner: Examiner
    artifacts: Artifacts
    report: ReportStatus
    failpoint: Callable[[RunPlan], RunPlan]  # every new plan passes through it; a test may spoil the plan there

    async def prepare(self, task: Task, attempt: RunId) -> Prepared | TaskStatus:
        """Return what was prepared, or the status that says why the node was refused."""
        try:
            examination = await self._prepare(task, attempt)
            if examination.plan is not None:
                await asyncio.to_thread(self.executor.try_out)
                plan = self.failpoint(examination.plan)
                await asyncio.to_thread(self.runs.write_plan, plan)
                return Prepared(plan, examination)
            status = refusal_status(self.settings.run_id, examination.findings, census=examination.census)
        except Refused as refusal:
            status = refusal_status(self.settings.run_id, (refusal.finding,))
        except Exception as error:
            log.exception("run_given_up")
            status = technical_failure_status(self.settings.run_id, error)
        log.info("node_left_unchanged", reason=status.reason, message=status.message)
        await asyncio.to_thread(self._remove_staged, task)
        return status

    def staging(self) -> TaskStatus:
        """Return the status with which an attempt is prepared."""
        return self._progress(TaskPhase.STAGING, "staging the kubelet binary on the node")

    async def _prepare(self, task: Task, attempt: RunId) -> Examination:
        self.settings.require_approved(task.spec)
        await asyncio.to_thread(self.executor.finish_earlier_cleanup, task.spec.kubelet.unit)
        program = await asyncio.to_thread(self.examiner.program, task)
        await self.report(self.staging())
        settings = await self.examiner.complete_settings(task)
        candidate = await asyncio.to_thread(self._stage, settings, task, program)
        files = await asyncio.to_thread(read_new_files, settings, self.artifacts, task.spec.files)
        await asyncio.to_thread(stage_files, self.host.files, files)
        await self.report(self._progress(TaskPhase.PRECHECKING, "proving every stored hash before anything is touched"))
        return await self.examiner.examine(
            ExaminationInput(task=task, attempt=attempt, replacement=candidate, files=files)
        )

    def _stage(self, settings: AgentSettings, task: Task, program: PurePosixPath) -> Replacement:
        staged = stage(settings, self.artifacts, self.host.files, task.spec.artifact, program)
        return Replacement(program=staged, digest=self.host.files.digest(staged))

    def _remove_staged(self, task: Task) -> None:
        try:
            program = self.examiner.running(task).program
            if program is not None and not self.executor.is_needed():
                self.host.files.remove(staged_path(program))
                remove_staged(self.host.files, (file.path for file in task.spec.files))
        except NodeUpgradeError as error:
            log.warning("staged_kubelet_not_removed", error=str(error))

    def _progress(self, phase: TaskPhase, message: str) -> TaskStatus:
        return TaskStatus(run_id=self.settings.run_id, phase=phase, reason=Reason.PROGRESSING, message=message)
