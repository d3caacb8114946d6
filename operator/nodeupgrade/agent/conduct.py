"""What the agent does for one task: stage, look, plan, hand over, tell.

Everything it knows is on the node's disk or in the task, so a second agent continues where the first was lost.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import PurePosixPath

import structlog

from nodeupgrade.adapters.journal import RunStore
from nodeupgrade.agent import bundle, units
from nodeupgrade.agent.settings import STATE, AgentSettings
from nodeupgrade.agent.staging import backup_path, stage, staged_path
from nodeupgrade.domain.errors import Inconsistent, NodeUpgradeError, Refused, StepFailed, Transient
from nodeupgrade.domain.plan import Limits, RunPlan
from nodeupgrade.domain.planning import RunRequest, plan_run
from nodeupgrade.domain.pods import Json
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import FlagPolicy, Task, TaskPhase, TaskStatus
from nodeupgrade.domain.task_report import failed_status, refusal_status
from nodeupgrade.domain.values import Digest, RunId
from nodeupgrade.domain.violations import PASSING, Violation
from nodeupgrade.engine import gather
from nodeupgrade.engine.node import Host
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import NodeSideKube

BUNDLES = STATE / "bundles"
LOOKS = 12
LOOK_AGAIN_SECONDS = 5.0

log = structlog.get_logger()

Tell = Callable[[TaskStatus], Awaitable[None]]


class Conductor:
    """Prepares one attempt at upgrading this node."""

    def __init__(self, settings: AgentSettings, kube: NodeSideKube, host: Host, runs: RunStore, tell: Tell) -> None:
        self._settings = settings
        self._kube = kube
        self._runs = runs
        self._tell = tell
        self._host = host

    async def prepare(self, task: Task, attempt: RunId) -> RunPlan | None:
        """Stage and plan; the plan is on the node's disk when this returns.

        Returns:
            The plan, or ``None`` when the node was refused; the task's status says why.
        """
        violations: tuple[Violation, ...]
        try:
            found = await self._prepare(task, attempt)
            if isinstance(found, RunPlan):
                await asyncio.to_thread(self._runs.write_plan, found)
                return found
            violations = found
        except Refused as refusal:
            violations = (Violation(reason=refusal.reason, detail=refusal.message),)
        except NodeUpgradeError as error:
            await self._give_up(task, Reason.STEP_FAILED, f"cannot look at the node: {error}")
            return None
        except Exception as error:
            log.exception("unexpected")
            await self._give_up(task, Reason.INTERNAL_ERROR, f"unexpected {type(error).__name__}: {error}")
            return None
        log.info("refused", violations=[str(violation) for violation in violations])
        await asyncio.to_thread(self._forget_staged, task)
        await self._tell(refusal_status(self._settings.run_id, violations))
        return None

    async def _give_up(self, task: Task, reason: Reason, message: str) -> None:
        await asyncio.to_thread(self._forget_staged, task)
        await self._tell(failed_status(self._settings.run_id, reason, f"{message}; the node is untouched"))

    async def _prepare(self, task: Task, attempt: RunId) -> RunPlan | tuple[Violation, ...]:
        spec = task.spec
        await asyncio.to_thread(self._clear_the_way, task)
        running = await asyncio.to_thread(self._running, task)
        if running.program is None:
            raise Refused(
                Reason.UNSUPPORTED_SERVICE_MANAGER,
                "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first",
            )
        await self._tell(self._working(TaskPhase.STAGING, "bringing the kubelet binary onto the node"))
        staged = await asyncio.to_thread(stage, self._settings, self._host.files, spec.artifact, running.program)
        await self._tell(self._working(TaskPhase.PRECHECKING, "proving every stored hash before anything is touched"))
        found: RunPlan | tuple[Violation, ...] = ()
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            try:
                found = await self._plan(task, attempt, staged)
            except Transient as error:
                if look == LOOKS - 1:
                    raise
                log.info("cannot look at the node yet", error=str(error))
                continue
            if isinstance(found, RunPlan) or not {violation.reason for violation in found} <= PASSING:
                break
            log.info("not yet", violations=[str(violation) for violation in found])
        return found

    async def _plan(self, task: Task, attempt: RunId, staged: PurePosixPath) -> RunPlan | tuple[Violation, ...]:
        """Look at API server and node at the same moment; a plan from stale pods proves nothing."""
        node_object = await self._kube.get_node(self._settings.node)
        pods = await self._kube.list_pods_on_node(self._settings.node)
        return await asyncio.to_thread(self._plan_here, task, attempt, staged, node_object, tuple(pods))

    def _plan_here(
        self,
        task: Task,
        attempt: RunId,
        staged: PurePosixPath,
        node_object: Json,
        pods: tuple[Json, ...],
    ) -> RunPlan | tuple[Violation, ...]:
        spec = task.spec
        running = self._running(task)
        layout = gather.kubelet_layout(self._host.files, running)
        node = self._host.node(layout.endpoint)
        wanted = gather.Wanted(
            target=KubeletVersion.parse(spec.to_version),
            allow_downgrade=spec.allow_downgrade,
            promised=Digest(spec.artifact.sha256) if spec.artifact.sha256 else None,
            staged=staged,
            remove_flags=spec.kubelet.remove_flags,
            strip_flags=spec.kubelet.flag_policy is FlagPolicy.STRIP,
        )
        facts = gather.gather(node, running, wanted, node_object=node_object, pods=pods)
        request = RunRequest(
            run_id=attempt,
            node=self._settings.node,
            upgrade=spec.upgrade_ref.name,
            staged=str(staged),
            backup=str(backup_path(running.program or staged)),
            limits=Limits(
                kubelet_down=float(spec.verify.kubelet_down_budget_seconds), settle=float(spec.verify.settle_seconds)
            ),
        )
        return plan_run(request, facts, layout, gather.manifests(self._host.files, layout))

    def _clear_the_way(self, task: Task) -> None:
        """See to it that no executor ever takes up an earlier run of this node, whose plan is out of date.

        Raises:
            Refused: an earlier run has begun and is not over.
        """
        try:
            while (earlier := self._runs.unfinished()) is not None:
                units.remove(self._host.files, self._host.services, task.spec.kubelet.unit)
                self._runs.discard(earlier)
                log.info("forgot a plan that nobody began", run=earlier)
        except Inconsistent as error:
            raise Refused(
                Reason.ROLLBACK_FAILED,
                f"an earlier run on this node is not over: {error}; put the node in order by hand, "
                f"then remove the run's directory below {STATE / 'runs'}",
            ) from error

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
        staged = bundle.stage(self._settings.bundle, self._settings.on_host(BUNDLES))
        units.install(self._host.files, self._host.services, BUNDLES / staged.name, plan.swap.unit)

    def executor_runs(self) -> bool:
        """Whether the executor is there, as far as systemd answers."""
        try:
            return self._host.services.status(units.EXECUTOR).active_state in {"active", "activating", "reloading"}
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

    def _running(self, task: Task) -> gather.RunningKubelet:
        return gather.running_kubelet(self._host.services, self._host.kubelet, task.spec.kubelet.unit)

    def _forget_staged(self, task: Task) -> None:
        try:
            program = self._running(task).program
            if program is not None:
                self._host.files.remove(staged_path(program))
        except NodeUpgradeError as error:
            log.warning("staged kubelet remains", error=str(error))

    def _working(self, phase: TaskPhase, message: str) -> TaskStatus:
        return TaskStatus(run_id=self._settings.run_id, phase=phase, reason=Reason.PROGRESSING, message=message)
