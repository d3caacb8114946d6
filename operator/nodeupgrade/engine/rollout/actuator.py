"""Turns decisions into writes. Every write names what it relies on, so a stale decision changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from nodeupgrade.api.json import Json, merge_patch, to_json
from nodeupgrade.api.limits import MESSAGE_LENGTH
from nodeupgrade.api.task.object import BASELINE_ANNOTATION, UPGRADE_LABEL, Task
from nodeupgrade.api.task.spec import TaskAction, TaskSpec, Verdict
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.object import FINALIZER, Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import CORDON_ANNOTATION, NodeView
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
    Hold,
    Judge,
    LiftGuard,
    NarrowGuard,
    NodeAction,
    RaiseGuard,
    Refuse,
    Release,
    RemoveFinalizer,
    Reopen,
    Report,
    RestoreCordon,
    Skip,
    StartTask,
    Wait,
    WaveNews,
    WriteStatus,
)
from nodeupgrade.domain.rollout.inflight.guard_lifecycle import decline, is_asked_for
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings, agent_pod
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import (
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    ConflictError,
    Event,
    NotFoundError,
    RejectedError,
    Resource,
    UnavailableError,
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision for a node that the API server would not let be carried out, and what it said."""

    node: NodeName
    deed: str
    problem: str


class Actuator:
    """Applies one plan of one NodeUpgrade.

    Attributes:
        applied: the decisions that took.
        refused: those for single nodes that the API server refused, or did not answer.
    """

    def __init__(self, kube: TypedKube, agents: AgentPodSettings, upgrade: Upgrade) -> None:
        self._kube = kube
        self._agents = agents
        self._upgrade = upgrade
        self._guard = GuardWriter(kube, agents.namespace)
        self.applied: list[NodeAction] = []
        self.refused: list[Refusal] = []

    async def apply(self, actions: Iterable[NodeAction]) -> bool:
        """Apply decisions in order, then tell people about those that took.

        A node that somebody else has changed since the plan was made is left as it is and does not keep the others
        waiting: what is decided for one node never rests upon what the same plan decides for another. Nor does one
        whose write is refused. What is not answered is waited for once only for each kind of write.

        Returns:
            Whether every decision took; if not, it is time to look again.

        Raises:
            ConflictError: The NodeUpgrade itself has changed.
            RejectedError, UnavailableError: It cannot be written; nothing else has been left out for that.
        """
        complete, unanswered = True, set[type[NodeAction]]()
        for action in actions:
            if type(action) in unanswered:
                complete = False
                continue
            try:
                taken = await self._take(action)
            except (RejectedError, UnavailableError) as error:
                if (node := getattr(action, "node", None)) is None:
                    raise
                if isinstance(error, UnavailableError):
                    unanswered.add(type(action))
                self.refused.append(Refusal(node, type(action).__name__, str(error)))
                complete = False
                continue
            if taken is None:
                complete = False
            else:
                self.applied.append(taken)
        for action in self.applied:
            for event in events(action, self._upgrade):
                await self._kube.emit_event(event)
        return complete

    async def _take(self, action: NodeAction) -> NodeAction | None:
        """Apply one decision, and return what took in the end: a guard that may not be written is declined."""
        try:
            await self._apply(action)
        except (ConflictError, NotFoundError):
            if isinstance(action, AddFinalizer | RemoveFinalizer | WriteStatus):
                raise
            return None
        except RejectedError as error:
            if not isinstance(action, RaiseGuard) or not is_asked_for(action.task):
                raise
            return await self._take(decline(action.task, str(error)))
        return action

    async def _apply(self, action: NodeAction) -> None:
        match action:
            case AddFinalizer() | RemoveFinalizer() | WriteStatus():
                await self._write_upgrade(action)
            case Cordon(view=node):
                await self._set_schedulable(node, cordoned_by=self._upgrade.uid)
            case RestoreCordon(view=node):
                await self._set_schedulable(node, cordoned_by=None)
            case Claim() | Reopen() | Blank() | StartTask() | Abort() | GiveUp() | Judge() | Release() | DropTask():
                await self._write_task(action)
            case RaiseGuard() | NarrowGuard() | DeclineGuard() | LiftGuard():
                await self._write_guard(action)
            case CreateAgent(task=task):
                await self._create_agent(task)
            case DeleteAgent(pod=pod):
                await self._kube.delete(PODS.within(self._agents.namespace), pod.name, uid=pod.uid)
            case Admit() | FreeSlot() | Refuse() | Skip() | WaveNews() | Hold() | Wait() | Report():
                pass  # carried out by the status write of the same plan, or only to be told
            case _:
                assert_never(action)

    async def _write_upgrade(self, action: AddFinalizer | RemoveFinalizer | WriteStatus) -> None:
        name, version = self._upgrade.name, self._upgrade.resource_version
        match action:
            case AddFinalizer():
                await self._set_finalizers([*self._upgrade.finalizers, FINALIZER])
            case RemoveFinalizer():
                await self._set_finalizers([other for other in self._upgrade.finalizers if other != FINALIZER])
            case WriteStatus(status=status):
                await self._kube.replace_status(UPGRADES, name, to_json(status), resource_version=version)

    async def _write_task(
        self, action: Claim | Reopen | Blank | StartTask | Abort | GiveUp | Judge | Release | DropTask
    ) -> None:
        match action:
            case Claim(spec=spec, claims=held):
                await self._put_task(spec, held, {})
            case StartTask(spec=spec, claims=held, baseline=baseline):
                await self._put_task(spec, held, {BASELINE_ANNOTATION: baseline} if baseline else {})
            case Reopen(task=task, spec=spec):
                await self._put_task(spec, task, {})
            case Blank(task=task):
                nothing = to_json(TaskStatus(observed_generation=task.generation))  # of no run: none has begun
                await self._kube.replace_status(TASKS, task.name, nothing, resource_version=task.resource_version)
            case Abort(task=task):
                wanted = {
                    "action": TaskAction.ABORT.value,
                    "actionReason": action.reason.value,
                    "actionMessage": action.message[:MESSAGE_LENGTH],
                }
                await self._merge_task(task, {"spec": wanted})
            case GiveUp():
                await self._give_up(action)
            case Judge(task=task, verdict=verdict):
                changed = merge_patch(to_json(task.spec.verdict) or {}, to_json(verdict))
                await self._merge_task(task, {"spec": {"verdict": changed}})
            case Release(task=task):
                metadata = {"annotations": {BASELINE_ANNOTATION: None}}
                await self._merge_task(task, {"spec": {"action": TaskAction.RELEASE.value}, "metadata": metadata})
            case DropTask(task=task):
                await self._kube.delete(TASKS, task.name, uid=task.uid)

    async def _write_guard(self, action: RaiseGuard | NarrowGuard | DeclineGuard | LiftGuard) -> None:
        """The parameters come first: who reads the task's answer may rely on them."""
        if not isinstance(action, DeclineGuard):
            await self._guard.write(action.parameters, action.changes)
        if not isinstance(action, LiftGuard):
            granted = merge_patch(to_json(action.task.spec.guard), to_json(action.grant))
            await self._merge_task(action.task, {"spec": {"guard": granted}})

    async def _merge_task(self, task: Task, patch: Json) -> None:
        await self._kube.merge(TASKS, task.name, patch, resource_version=task.resource_version)

    async def _set_finalizers(self, finalizers: list[str]) -> None:
        patch = {"metadata": {"finalizers": finalizers}}
        await self._kube.merge(UPGRADES, self._upgrade.name, patch, resource_version=self._upgrade.resource_version)

    async def _set_schedulable(self, node: NodeView, *, cordoned_by: str | None) -> None:
        """Cordon or uncordon, and say in the same write whose doing it is."""
        await self._kube.merge(NODES, node.name, cordon(cordoned_by), resource_version=node.resource_version)

    async def _put_task(self, spec: TaskSpec, held: Task | None, annotations: dict[str, str]) -> None:
        """Create a node's task, or change the very one that was read."""
        labels = {UPGRADE_LABEL: self._upgrade.name}
        if held is not None:
            changed = merge_patch(to_json(held.spec), to_json(spec))
            metadata: Json = {"labels": labels, "annotations": {BASELINE_ANNOTATION: None, **annotations}}
            await self._merge_task(held, {"metadata": metadata, "spec": changed})
            return
        owner = {**_reference(NODES, spec.node_name, spec.node_uid), "blockOwnerDeletion": False}
        body = {
            "apiVersion": TASKS.api_version,
            "kind": TASKS.kind,
            "metadata": {
                "name": spec.node_name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner],
            },
            "spec": to_json(spec),
        }
        await self._kube.create(TASKS, body)

    async def _create_agent(self, task: Task) -> None:
        try:
            await self._kube.create(PODS.within(self._agents.namespace), agent_pod(task, self._agents))
        except ConflictError:
            return  # created before, by a pass that did not live to see it; the next pass looks at what is there

    async def _give_up(self, action: GiveUp) -> None:
        task, now = action.task, self._kube.utcnow()
        status = TaskStatus(
            run_id=task.spec.run_id,
            observed_generation=task.generation,
            phase=TaskPhase.FAILED,
            reason=action.reason,
            message=action.message[:MESSAGE_LENGTH],
            finished_at=now,
        )
        version = task.resource_version
        await self._kube.replace_status(TASKS, task.name, to_json(status), resource_version=version)


def cordon(by: str | None) -> Json:
    """Write a cordon and whose it is, or that there is none."""
    return {
        "metadata": {"annotations": {CORDON_ANNOTATION: by}},
        "spec": {"unschedulable": True if by else None},
    }


_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


def events(action: NodeAction, upgrade: Upgrade) -> tuple[Event, ...]:
    """Say which events a decision deserves: on the Node whose fate it is, and on the NodeUpgrade.

    There, successes are told by wave and not by node: a fleet has thousands of them.
    """
    rollout = stub(UPGRADES, upgrade.name, upgrade.uid)

    def event(regarding: Json, *, warning: bool = False) -> Event:
        return Event(regarding=regarding, reason=action.reason, message=action.message, warning=warning)

    match action:
        case Report(warning=warning):
            return (event(rollout, warning=warning),)
        case Refuse() | Abort() | DropTask():
            return (event(rollout, warning=True),)
        case Skip() | WaveNews():
            return (event(rollout),)
        case RaiseGuard(task=task) | DeclineGuard(task=task) | LiftGuard(task=task):
            return (event(stub(NODES, task.name, task.spec.node_uid), warning=isinstance(action, DeclineGuard)),)
        case Cordon(view=node) | RestoreCordon(view=node):
            return (event(stub(NODES, node.name, node.uid)),)
        case Judge(task=task, verdict=verdict):
            warning = verdict.outcome not in _GOOD
            about_node = event(stub(NODES, task.name, task.spec.node_uid), warning=warning)
            return (event(rollout, warning=True), about_node) if warning else (about_node,)
        case CreateAgent(task=task):
            return (event(stub(TASKS, task.name, task.uid)),)
        case _:
            return ()


def stub(resource: Resource, name: str, uid: str) -> Json:
    """Write as much of an object as an event needs to be about it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": uid},
    }


def _reference(resource: Resource, name: str, uid: str) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": name, "uid": uid}
