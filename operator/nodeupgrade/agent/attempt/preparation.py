"""Prepares one attempt before anything is touched: stage the kubelet, examine the node, plan, try out the executor.

All state is on the node's disk or in the task, so another agent continues where this one was lost.
"""

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath

import structlog

from nodeupgrade.agent.attempt.examine import Examiner, given_up
from nodeupgrade.agent.host.executor_service import ExecutorService
from nodeupgrade.agent.host.files import forget as forget_files
from nodeupgrade.agent.host.files import stage as stage_files
from nodeupgrade.agent.host.files import take
from nodeupgrade.agent.host.staging import stage, staged_path
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.agent.task_reporter import ReportStatus
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import RunId
from nodeupgrade.domain.errors import NodeUpgradeError, Refused
from nodeupgrade.domain.node.files import NewFile
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.planning import Examination
from nodeupgrade.domain.node.request import Replacement
from nodeupgrade.domain.node.run.task_report import refusal_status
from nodeupgrade.engine.node.node import Host
from nodeupgrade.ports.artifacts import Artifacts
from nodeupgrade.ports.kube import NodeSideKube
from nodeupgrade.ports.runs import AgentRuns

log = structlog.get_logger()


class Preparation:
    """Prepares one attempt at upgrading this node."""

    def __init__(
        self,
        settings: AgentSettings,
        kube: NodeSideKube,
        host: Host,
        *,
        runs: AgentRuns,
        executor: ExecutorService,
        artifacts: Artifacts,
        report: ReportStatus,
        failpoint: Callable[[RunPlan], RunPlan],
    ) -> None:
        self._settings = settings
        self._failpoint = failpoint
        self._runs = runs
        self._executor = executor
        self._artifacts = artifacts
        self._report_status = report
        self._host = host
        self._examiner = Examiner(settings, kube, host)

    async def prepare(self, task: Task, attempt: RunId) -> RunPlan | TaskStatus:
        """Stage and plan.

        Returns:
            The plan, which is on the node's disk by then, or the status that says why the node was refused.
        """
        try:
            examination = await self._prepare(task, attempt)
            if examination.plan is not None:
                await self._executor.try_out()
                plan = self._failpoint(examination.plan)
                await asyncio.to_thread(self._runs.write_plan, plan)
                return plan
            status = refusal_status(self._settings.run_id, examination.findings)
        except Refused as refusal:
            status = refusal_status(self._settings.run_id, (refusal.finding,))
        except Exception as error:
            log.exception("given up")
            status = given_up(self._settings.run_id, error)
        log.info("the node is left as it is", reason=status.reason, message=status.message)
        await asyncio.to_thread(self._forget_staged, task)
        return status

    async def _prepare(self, task: Task, attempt: RunId) -> Examination:
        self._settings.require_approved(task.spec)
        await asyncio.to_thread(self._executor.rest, task.spec.kubelet.unit)
        program = await asyncio.to_thread(self._examiner.program, task)
        await self._report_status(self._progress(TaskPhase.STAGING, "bringing the kubelet binary onto the node"))
        settings = await self._examiner.informed(task)
        candidate = await asyncio.to_thread(self._stage, settings, task, program)
        files = await asyncio.to_thread(self._stage_files, settings, task)
        await self._report_status(
            self._progress(TaskPhase.PRECHECKING, "proving every stored hash before anything is touched")
        )
        return await self._examiner.settled(task, attempt, candidate, files)

    def _stage(self, settings: AgentSettings, task: Task, program: PurePosixPath) -> Replacement:
        staged = stage(settings, self._artifacts, self._host.files, task.spec.artifact, program)
        return Replacement(program=staged, digest=self._host.files.digest(staged))

    def _stage_files(self, settings: AgentSettings, task: Task) -> tuple[NewFile, ...]:
        new = take(settings, self._artifacts, task.spec.files)
        stage_files(self._host.files, new)
        return new

    def _forget_staged(self, task: Task) -> None:
        try:
            program = self._examiner.running(task).program
            if program is not None and self._executor.unneeded():
                self._host.files.remove(staged_path(program))
                forget_files(self._host.files, (file.path for file in task.spec.files))
        except NodeUpgradeError as error:
            log.warning("staged kubelet remains", error=str(error))

    def _progress(self, phase: TaskPhase, message: str) -> TaskStatus:
        return TaskStatus(run_id=self._settings.run_id, phase=phase, reason=Reason.PROGRESSING, message=message)
