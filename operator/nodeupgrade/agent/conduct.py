"""What the agent does for one task: stage, look, plan, hand over, tell.

Everything it knows is on the node's disk or in the task, so a second agent continues where the first was lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath

import structlog

from nodeupgrade.adapters.journal import RunStore
from nodeupgrade.agent import bundle, units
from nodeupgrade.agent.looking import Looking, given_up, not_over
from nodeupgrade.agent.settings import STATE, AgentSettings
from nodeupgrade.agent.staging import stage, staged_path
from nodeupgrade.domain.errors import Inconsistent, NodeUpgradeError, Refused, StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.planning import Examination
from nodeupgrade.domain.node.task_report import refusal_status
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import Task
from nodeupgrade.domain.task_status import TaskPhase, TaskStatus
from nodeupgrade.domain.values import RunId
from nodeupgrade.engine.gather import Candidate
from nodeupgrade.engine.node import Host
from nodeupgrade.ports.clock import Clock
from nodeupgrade.ports.kube import NodeSideKube

BUNDLES = STATE / "bundles"

log = structlog.get_logger()

Tell = Callable[[TaskStatus], Awaitable[None]]


class Conductor:
    """Prepares one attempt at upgrading this node."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: Host, runs: RunStore, tell: Tell) -> None:
        self._settings = settings
        self._runs = runs
        self._tell = tell
        self._host = host
        self._looking = Looking(settings, kube, host)

    async def prepare(self, task: Task, attempt: RunId) -> RunPlan | None:
        """Stage and plan; the plan is on the node's disk when this returns.

        Returns:
            The plan, or ``None`` when the node was refused; the task's status says why.
        """
        try:
            found = await self._prepare(task, attempt)
            if found.plan is not None:
                await asyncio.to_thread(self._runs.write_plan, found.plan)
                return found.plan
            status = refusal_status(self._settings.run_id, found.violations, cautions=found.cautions)
        except Refused as refusal:
            status = refusal_status(self._settings.run_id, (refusal.violation,))
        except Exception as error:
            log.exception("given up")
            status = given_up(self._settings.run_id, error)
        log.info("the node is left as it is", reason=status.reason, message=status.message)
        await asyncio.to_thread(self._forget_staged, task)
        await self._tell(status)
        return None

    async def _prepare(self, task: Task, attempt: RunId) -> Examination:
        await asyncio.to_thread(self._clear_the_way, task)
        program = await asyncio.to_thread(self._looking.program, task)
        await self._tell(self._working(TaskPhase.STAGING, "bringing the kubelet binary onto the node"))
        candidate = await asyncio.to_thread(self._stage, task, program)
        await self._tell(self._working(TaskPhase.PRECHECKING, "proving every stored hash before anything is touched"))
        return await self._looking.settled(task, attempt, candidate)

    def _stage(self, task: Task, program: PurePosixPath) -> Candidate:
        staged = stage(self._settings, self._host.files, task.spec.artifact, program)
        return Candidate(program=staged, digest=self._host.files.digest(staged))

    def _clear_the_way(self, task: Task) -> None:
        """See to it that no executor ever takes up an earlier run of this node, whose plan is out of date.

        Nor may one that is through with an earlier attempt still be tidying up: it would take away what is staged now.

        Raises:
            Refused: an earlier run has begun and is not over; it keeps its executor.
        """
        try:
            while (earlier := self._runs.unfinished()) is not None:
                if not self._runs.read_journal(earlier).records:
                    units.remove(self._host.files, self._host.services, task.spec.kubelet.unit)
                self._runs.discard(earlier)
                log.info("forgot a plan that nobody began", run=earlier)
        except Inconsistent as error:
            raise not_over(error) from error
        if units.remain(self._host.files):
            units.remove(self._host.files, self._host.services, task.spec.kubelet.unit)

    async def bring_bundle(self) -> None:
        """Bring what the executor runs from onto the node, which may take a while; nothing there is started.

        Raises:
            StepFailed: it cannot be brought.
        """
        try:
            await asyncio.to_thread(self._bring_bundle)
        except (OSError, bundle.BundleError) as error:
            raise StepFailed(f"cannot bring the executor onto the node: {error}") from error

    def _bring_bundle(self) -> PurePosixPath:
        return BUNDLES / bundle.stage(self._settings.bundle, self._settings.on_host(BUNDLES)).name

    async def hand_over(self, plan: RunPlan) -> None:
        """Bring the bundle onto the node and start the executor. Repeating it is harmless.

        Raises:
            StepFailed: it cannot be started, or only perhaps.
        """
        try:
            await asyncio.to_thread(self._hand_over, plan)
        except (OSError, bundle.BundleError) as error:
            raise StepFailed(f"cannot bring the executor onto the node: {error}") from error

    def _hand_over(self, plan: RunPlan) -> None:
        units.install(self._host.files, self._host.services, self._bring_bundle(), plan)

    def handed_over(self, plan: RunPlan) -> bool:
        """Whether an agent before this one has handed the plan over, so that an executor may begin any moment.

        Raises:
            NodeUpgradeError: systemd does not answer.
        """
        about_to = self._runs.handing_over(plan.run_id)
        return about_to and self._host.services.status(units.EXECUTOR).load_state != "not-found"

    def clock(self, plan: RunPlan) -> Clock:
        """The node's clock."""
        return self._host.node(plan.runtime_endpoint).clock

    def executor_runs(self) -> bool:
        """Whether the executor is there, as far as systemd answers; one that only keeps dying is not."""
        try:
            status = self._host.services.status(units.EXECUTOR)
            return status.active_state in {"active", "activating", "reloading"} and status.sub_state != "auto-restart"
        except NodeUpgradeError as error:
            log.info("cannot look for the executor", error=str(error))
            return True

    async def withdraw(self, plan: RunPlan) -> bool:
        """Take a plan back that was perhaps handed over.

        Returns:
            Whether it could be: not when an executor has begun to carry it out.

        Raises:
            StepFailed: an executor may still be there.
        """
        return await asyncio.to_thread(self._withdraw, plan)

    def _withdraw(self, plan: RunPlan) -> bool:
        if not self._runs.read_journal(plan.run_id).records:
            units.remove(self._host.files, self._host.services, plan.swap.unit)
        if self._runs.read_journal(plan.run_id).records:
            return False
        self._runs.discard(plan.run_id)
        self._host.files.remove(PurePosixPath(plan.swap.staged))
        return True

    async def clean_up(self, plan: RunPlan) -> None:
        """Take away what only the run needed; journal, plan, backup and the newest bundle stay.

        The executor does the same at its end, unless it was killed there or is stopped here before it is through.
        """
        try:
            await asyncio.to_thread(self._clean_up, plan)
        except (NodeUpgradeError, bundle.BundleError) as error:
            log.warning("something of the run remains on the node", error=str(error))

    def _clean_up(self, plan: RunPlan) -> None:
        units.remove(self._host.files, self._host.services, plan.swap.unit)
        self._host.files.remove(PurePosixPath(plan.swap.staged))
        bundle.retire(self._settings.on_host(BUNDLES), kept=bundle.read_manifest(self._settings.bundle).name)

    def _forget_staged(self, task: Task) -> None:
        try:
            program = self._looking.running(task).program
            if program is not None:
                self._host.files.remove(staged_path(program))
        except NodeUpgradeError as error:
            log.warning("staged kubelet remains", error=str(error))

    def _working(self, phase: TaskPhase, message: str) -> TaskStatus:
        return TaskStatus(run_id=self._settings.run_id, phase=phase, reason=Reason.PROGRESSING, message=message)
