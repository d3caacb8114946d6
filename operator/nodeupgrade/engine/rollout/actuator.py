"""The actuator turns actions into writes. Every write states its precondition, so a stale action changes nothing."""

from datetime import datetime
from typing import assert_never

from nodeupgrade.api.json import Json, merge_patch, to_json
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.task.object import (
    BASELINE_ANNOTATION,
    HELD_SINCE_ANNOTATION,
    SETTLED_ANNOTATION,
    UPGRADE_LABEL,
    Task,
)
from nodeupgrade.api.task.spec import TaskAction, TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.object import EPOCH_MARK, FINALIZER, Upgrade
from nodeupgrade.api.values import printable
from nodeupgrade.domain.agent_pods import PodRole
from nodeupgrade.domain.nodes import CORDON_ANNOTATION, CORDON_MANAGER
from nodeupgrade.domain.rollout import hooks
from nodeupgrade.domain.rollout.actions import (
    Abort,
    AddFinalizer,
    Admit,
    Blank,
    Claim,
    Cordon,
    CreateAgent,
    DeclineGuard,
    DeleteAgent,
    DropTask,
    FreeSlot,
    GiveUp,
    GuardWrite,
    Hold,
    Judge,
    LiftGuard,
    MarkTask,
    NarrowGuard,
    NodeAction,
    NoteHold,
    RaiseGuard,
    RecordHook,
    Refuse,
    Release,
    RemoveFinalizer,
    Reopen,
    Report,
    RestoreCordon,
    Skip,
    StartHook,
    StartTask,
    UpgradeWrite,
    Wait,
    WaveNews,
    WriteStatus,
)
from nodeupgrade.domain.rollout.guard import decline, is_asked_for
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings, agent_pod, artifact_pod
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.rollout.hook_job import start_hook
from nodeupgrade.engine.rollout.maintenance import announce, withdraw
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import (
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    ConflictError,
    NotFoundError,
    RejectedError,
)


class Actuator:
    """Carries out actions for one NodeUpgrade.

    Args:
        kube: The API server.
        agents: Settings of agent pods.
        upgrade: The NodeUpgrade as it was read for deciding on the actions.
        epoch: What this leader marks tasks with that it writes; empty for nothing.
        guard: Writes the parameters of the readiness guard; by default one that nobody else uses.
    """

    def __init__(
        self,
        kube: TypedKube,
        agents: AgentPodSettings,
        upgrade: Upgrade,
        epoch: str = "",
        guard: GuardWriter | None = None,
    ) -> None:
        self._kube = kube
        self._agents = agents
        self._upgrade = upgrade
        self._guard = guard or GuardWriter(kube, agents.namespace)
        self._mark = {EPOCH_MARK: epoch} if epoch else {}

    async def carry_out(self, action: NodeAction) -> NodeAction | None:
        """Carry out one action, and return the one that succeeded: a guard that must not be written is declined.

        Returns:
            None if what the action relies on has changed, so that it must be decided again.

        Raises:
            ConflictError, NotFoundError: The NodeUpgrade itself has changed or is gone.
            RejectedError: The API server refuses the write.
            UnavailableError: It does not answer; the write may have taken effect, or may yet.
        """
        try:
            await self._apply(action)
        except (ConflictError, NotFoundError):
            if isinstance(action, UpgradeWrite):
                raise
            return None
        except RejectedError as error:
            if not isinstance(action, RaiseGuard) or not is_asked_for(action.task):
                raise
            return await self.carry_out(decline(action.task, str(error)))
        return action

    async def _apply(self, action: NodeAction) -> None:  # noqa: PLR0912 - one case for each action
        upgrade, kube, now = self._upgrade, self._kube, self._kube.utcnow()
        match action:
            case AddFinalizer():
                await self._merge_upgrade({"finalizers": [*upgrade.finalizers, FINALIZER]})
            case RemoveFinalizer():
                await self._merge_upgrade({"finalizers": [each for each in upgrade.finalizers if each != FINALIZER]})
            case WriteStatus(status=status):
                version = upgrade.resource_version
                await kube.replace_status(UPGRADES, upgrade.name, to_json(status), resource_version=version)
            case Cordon() | RestoreCordon():
                await self._set_schedulable(action)
            case Claim(spec=spec, claims=held):
                await self._put_task(spec, held, {})
            case StartTask(spec=spec, claims=held, baseline=baseline):
                await self._put_task(spec, held, {BASELINE_ANNOTATION: baseline} if baseline else {})
            case Reopen(task=task, spec=spec):
                await self._put_task(spec, task, {})
            case Blank(task=task):  # no run ID: no run has begun
                await self._replace_status(task, TaskStatus(observed_generation=task.generation))
            case GiveUp(task=task):
                await self._replace_status(task, _given_up(action, now))
            case MarkTask(task=task):  # always another value
                await self._annotate(task, {**self._mark, SETTLED_ANNOTATION: now.isoformat()})
            case NoteHold(task=task):
                await self._annotate(task, {HELD_SINCE_ANNOTATION: now.isoformat()})
            case StartHook(task=task, hook=hook):
                await start_hook(kube, self._agents.namespace, task, hook)
            case RecordHook(task=task, hook=hook):
                await self._merge_task(task, {"spec": {"hooks": to_json(hooks.with_result(task, hook))}})
            case Abort(task=task, reason=reason, message=message):
                asked = {"action": TaskAction.ABORT.value, "actionReason": reason.value}
                await self._merge_task(task, {"spec": {**asked, "actionMessage": shorten(printable(message))}})
            case Judge(task=task, verdict=verdict):
                changed = merge_patch(to_json(task.spec.verdict) or {}, to_json(verdict))
                await self._merge_task(task, {"spec": {"verdict": changed}})
            case Release(task=task):
                metadata = {"annotations": {BASELINE_ANNOTATION: None}}
                await self._merge_task(task, {"spec": {"action": TaskAction.RELEASE.value}, "metadata": metadata})
            case DropTask(task=task):
                await kube.delete(TASKS, task.name, uid=task.uid)
            case RaiseGuard() | NarrowGuard() | DeclineGuard() | LiftGuard():
                await self._write_guard(action)
            case CreateAgent():
                await self._create_agent(action)
            case DeleteAgent(pod=pod):
                await kube.delete(PODS.within(self._agents.namespace), pod.name, uid=pod.uid)
            case Admit() | FreeSlot() | Refuse() | Skip() | WaveNews() | Hold() | Wait() | Report():
                pass  # done by the status write of the same plan, or merely reported
            case _:
                assert_never(action)

    async def _write_guard(self, action: GuardWrite) -> None:
        """Write the parameters, then the task: the answer in the task means that the parameters are in place."""
        if not isinstance(action, DeclineGuard):
            await self._guard.write(action.parameters, action.changes)
        if not isinstance(action, LiftGuard):
            granted = merge_patch(to_json(action.task.spec.guard), to_json(action.grant))
            await self._merge_task(action.task, {"spec": {"guard": granted}})

    async def _merge_task(self, task: Task, patch: Json) -> None:
        await self._kube.merge(TASKS, task.name, patch, resource_version=task.resource_version)

    async def _annotate(self, task: Task, annotations: dict[str, str]) -> None:
        await self._merge_task(task, {"metadata": {"annotations": annotations}})

    async def _replace_status(self, task: Task, status: TaskStatus) -> None:
        version = task.resource_version
        await self._kube.replace_status(TASKS, task.name, to_json(status), resource_version=version)

    async def _merge_upgrade(self, metadata: Json) -> None:
        name, version = self._upgrade.name, self._upgrade.resource_version
        await self._kube.merge(UPGRADES, name, {"metadata": metadata}, resource_version=version)

    async def _set_schedulable(self, action: Cordon | RestoreCordon) -> None:
        """Cordon or uncordon the node, record the owner of the cordon in the same write, and tell others of it."""
        node, owner = action.view, self._upgrade if isinstance(action, Cordon) else None
        version = node.resource_version if owner else await withdraw(self._kube, node)
        await self._kube.merge(NODES, node.name, cordon(owner), resource_version=version, field_manager=CORDON_MANAGER)
        if isinstance(action, Cordon) and action.announces:
            await announce(self._kube, node, self._upgrade.name, self._kube.utcnow())

    async def _put_task(self, spec: TaskSpec, held: Task | None, annotations: dict[str, str]) -> None:
        """Create a node's task, or update it if it has not changed since it was read."""
        labels = {UPGRADE_LABEL: self._upgrade.name}
        annotations = {**annotations, **self._mark}
        if held is not None:
            changed = merge_patch(to_json(held.spec), to_json(spec))
            own = held.spec.upgrade_ref.uid == spec.upgrade_ref.uid
            forgotten = {BASELINE_ANNOTATION: None, **({} if own else {HELD_SINCE_ANNOTATION: None})}
            metadata: Json = {"labels": labels, "annotations": {**forgotten, **annotations}}
            await self._merge_task(held, {"metadata": metadata, "spec": changed})
            return
        body = {
            "apiVersion": TASKS.api_version,
            "kind": TASKS.kind,
            "metadata": {
                "name": spec.node_name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [NODES.as_owner(spec.node_name, spec.node_uid)],
            },
            "spec": to_json(spec),
        }
        await self._kube.create(TASKS, body)

    async def _create_agent(self, action: CreateAgent) -> None:
        match action.role:
            case PodRole.AGENT:
                body = agent_pod(action.task, self._agents, action.artifact)
            case PodRole.ARTIFACT:
                body = artifact_pod(action.task, self._agents)
        try:
            await self._kube.create(PODS.within(self._agents.namespace), body)
        except ConflictError:
            return  # an interrupted pass created it; the next pass reads what exists


def _given_up(action: GiveUp, now: datetime) -> TaskStatus:
    """Return the status that the node side did not write."""
    return TaskStatus(
        run_id=action.task.spec.run_id,
        observed_generation=action.task.generation,
        phase=action.phase,
        reason=action.reason,
        message=shorten(printable(action.message)),
        finished_at=now,
    )


def cordon(by: Upgrade | None) -> Json:
    """Return the patch that cordons a node for a NodeUpgrade, or uncordons it if None; the label is for people."""
    return {
        "metadata": {
            "annotations": {CORDON_ANNOTATION: None if by is None else by.uid},
            "labels": {UPGRADE_LABEL: None if by is None else by.name},
        },
        "spec": {"unschedulable": None if by is None else True},
    }
