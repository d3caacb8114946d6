"""The actuator turns actions into writes, with preconditions so that a stale one changes nothing, and into events."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
from nodeupgrade.api.task.spec import HookResult, TaskAction, TaskSpec, Verdict
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.object import EPOCH_MARK, FINALIZER, Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.api.wording import printable
from nodeupgrade.domain.rollout import actions, hooks
from nodeupgrade.domain.rollout.guard import decline, is_asked_for
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.agent_pod import pod_for
from nodeupgrade.engine.rollout.cordons import cordon, uncordon
from nodeupgrade.engine.rollout.hook_job import start_hook
from nodeupgrade.engine.rollout.snapshots import RolloutMemory, Snapshots
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
    UnavailableError,
)

# Kubernetes events about what was done, emitted in the background as client-go's recorder does: nobody waits.

MOST_WAITING = 1000
"""Events that wait at most; further ones are dropped, because an API server that is this far behind needs rest."""


class EventRecorder:
    """Emits the recorded events one after the other, in order, while it runs."""

    def __init__(self, kube: TypedKube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

    def record(self, events: Iterable[Event]) -> None:
        """Take note of events; returns at once."""
        for event in events:
            if not self._waiting.full():
                self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Emit events until cancelled."""
        while True:
            await self._kube.emit_event(await self._waiting.get())

    def forget(self) -> None:
        """Drop what is waiting: a former leader has nothing to tell."""
        while not self._waiting.empty():
            self._waiting.get_nowait()


@dataclass(slots=True)
class Actuator:
    """Carries out what is decided on a snapshot, and takes note of what succeeded."""

    snapshots: Snapshots  # for the API server, the writer of the guard's parameters, and settings of agent pods
    fleet: FleetSnapshot  # what the actions are decided on; tasks that are written are marked with its epoch
    memory: RolloutMemory  # what is kept of the NodeUpgrade
    recorder: EventRecorder

    async def carry_out(self, action: actions.NodeAction) -> actions.NodeAction | None:
        """Carry out one action, and return the one that succeeded: a guard that must not be written is declined.

        Returns:
            None if what the action relies on has changed, so that it must be decided again.

        Raises:
            ConflictError, NotFoundError: The NodeUpgrade itself has changed or is gone.
            RejectedError: The API server refuses the write.
            UnavailableError: It does not answer; the write may have taken effect, or may yet.
        """
        try:
            if not isinstance(action, actions.Told):
                await self._apply(action)
        except (ConflictError, NotFoundError):
            if isinstance(action, actions.UpgradeWrite):
                raise
            return None
        except RejectedError as error:
            if not isinstance(action, actions.RaiseGuard) or not is_asked_for(action.task):
                raise
            return await self.carry_out(decline(action.task, str(error)))
        self.recorder.record(events(action, self.fleet.upgrade))
        self.memory.failures = self.memory.failures.succeeded(action, self.kube.utcnow())
        return action

    @property
    def kube(self) -> TypedKube:
        """The API server."""
        return self.snapshots.kube

    async def _apply(self, action: actions.Write) -> None:  # noqa: PLR0912, PLR0915 - one case for each action
        upgrade, kube, now = self.fleet.upgrade, self.kube, self.kube.utcnow()
        namespace = self.snapshots.agents.namespace
        match action:
            case actions.AddFinalizer():
                await self._merge_upgrade({"finalizers": [*upgrade.finalizers, FINALIZER]})
            case actions.RemoveFinalizer():
                await self._merge_upgrade({"finalizers": [each for each in upgrade.finalizers if each != FINALIZER]})
            case actions.WriteStatus(status=status):
                version = upgrade.resource_version
                await kube.replace_status(UPGRADES, upgrade.name, to_json(status), resource_version=version)
            case actions.Cordon(view=node, announces=announces):
                await cordon(kube, node, upgrade, announces=announces)
            case actions.RestoreCordon(view=node):
                await uncordon(kube, node)
            case actions.Claim(spec=spec, claims=held):
                await self._put_task(spec, held, {})
            case actions.StartTask(spec=spec, claims=held, baseline=baseline):
                await self._put_task(spec, held, {BASELINE_ANNOTATION: baseline} if baseline else {})
            case actions.Reopen(task=task, spec=spec):
                await self._put_task(spec, task, {})
            case actions.Blank(task=task):  # no run ID: no run has begun
                await self._replace_status(task, TaskStatus(observed_generation=task.generation))
            case actions.GiveUp(task=task):
                await self._replace_status(task, action.status(now))
            case actions.MarkTask(task=task):  # always another value
                await self._annotate(task, {**self._mark, SETTLED_ANNOTATION: now.isoformat()})
            case actions.NoteHold(task=task):
                await self._annotate(task, {HELD_SINCE_ANNOTATION: now.isoformat()})
            case actions.StartHook(task=task, hook=hook):
                await start_hook(kube, namespace, task, hook)
            case actions.RecordHook(task=task, hook=hook):
                await self._merge_task(task, {"spec": {"hooks": to_json(hooks.with_result(task, hook))}})
            case actions.Abort(task=task, reason=reason, message=message):
                asked = {"action": TaskAction.ABORT.value, "actionReason": reason.value}
                await self._merge_task(task, {"spec": {**asked, "actionMessage": shorten(printable(message))}})
            case actions.Judge(task=task, verdict=verdict):
                changed = merge_patch(to_json(task.spec.verdict) or {}, to_json(verdict))
                await self._merge_task(task, {"spec": {"verdict": changed}})
            case actions.Release(task=task):
                metadata = {"annotations": {BASELINE_ANNOTATION: None}}
                await self._merge_task(task, {"spec": {"action": TaskAction.RELEASE.value}, "metadata": metadata})
            case actions.DropTask(task=task):
                await kube.delete(TASKS, task.name, uid=task.uid)
            case actions.RaiseGuard() | actions.NarrowGuard() | actions.DeclineGuard() | actions.LiftGuard():
                await self._write_guard(action)
            case actions.CreateAgent():
                await self._create_agent(action)
            case actions.DeleteAgent(pod=pod):
                await kube.delete(PODS.within(namespace), pod.name, uid=pod.uid)
            case _:
                assert_never(action)

    @property
    def _mark(self) -> dict[str, str]:
        return {EPOCH_MARK: self.fleet.epoch} if self.fleet.epoch else {}

    async def _write_guard(self, action: actions.GuardWrite) -> None:
        """Write the parameters, then the task: the answer in the task means that the parameters are in place."""
        if not isinstance(action, actions.DeclineGuard):
            await self.snapshots.guard.write(action.parameters, action.changes)
        if not isinstance(action, actions.LiftGuard):
            granted = merge_patch(to_json(action.task.spec.guard), to_json(action.grant))
            await self._merge_task(action.task, {"spec": {"guard": granted}})

    async def _merge_task(self, task: Task, patch: Json) -> None:
        await self.kube.merge(TASKS, task.name, patch, resource_version=task.resource_version)

    async def _annotate(self, task: Task, annotations: dict[str, str]) -> None:
        await self._merge_task(task, {"metadata": {"annotations": annotations}})

    async def _replace_status(self, task: Task, status: TaskStatus) -> None:
        await self.kube.replace_status(TASKS, task.name, to_json(status), resource_version=task.resource_version)

    async def _merge_upgrade(self, metadata: Json) -> None:
        upgrade, patch = self.fleet.upgrade, {"metadata": metadata}
        await self.kube.merge(UPGRADES, upgrade.name, patch, resource_version=upgrade.resource_version)

    async def _put_task(self, spec: TaskSpec, held: Task | None, annotations: dict[str, str]) -> None:
        """Create a node's task, or update it if it has not changed since it was read."""
        labels = {UPGRADE_LABEL: self.fleet.upgrade.name}
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
        await self.kube.create(TASKS, body)

    async def _create_agent(self, action: actions.CreateAgent) -> None:
        agents = self.snapshots.agents
        body = pod_for(action.role, action.task, agents, action.artifact)
        with contextlib.suppress(ConflictError):  # an interrupted plan created it; the next one reads what exists
            await self.kube.create(PODS.within(agents.namespace), body)


# The writes of one plan.

TASKS_AT_ONCE = 32
"""Tasks of waiting nodes that are written at the same time: below what an API server gives to one client, so that it
has room for the nodes in flight.
"""

BEGIN_SECONDS, PATIENCE_SECONDS = 2.0, 15.0
"""For how long a plan begins such writes, the others being left to the next one; and how long each may take."""


async def carry_out_plan(
    actuator: Actuator,
    planned: Sequence[actions.NodeAction],
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None],
) -> tuple[list[actions.NodeAction], bool]:
    """Carry out a plan: what is for the rollout itself in order, and for waiting nodes at the same time.

    A write that is refused for one node affects no other, nor the status: an action for one node never depends on
    what the same plan decides for another. Return the actions that succeeded, and whether all did.

    Raises:
        RejectedError, UnavailableError: The NodeUpgrade cannot be written at the moment.
    """
    writing = _Writing(actuator, on_slots)
    own = asyncio.ensure_future(writing.for_rollout([each for each in planned if _node_of(each) is None]))
    others = asyncio.ensure_future(writing.for_nodes([each for each in planned if _node_of(each) is not None]))
    try:
        await asyncio.wait({own, others})
    finally:
        own.cancel()
        others.cancel()
        await asyncio.gather(own, others, return_exceptions=True)
    return writing.applied, own.result() and others.result()


@dataclass(slots=True)
class _Writing:
    """The writes of one plan."""

    actuator: Actuator
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None]
    applied: list[actions.NodeAction] = field(default_factory=list)  # the actions that succeeded
    _permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TASKS_AT_ONCE))
    _unanswered: set[type[actions.NodeAction]] = field(default_factory=set)

    async def for_rollout(self, planned: Iterable[actions.NodeAction]) -> bool:
        """Carry out actions in order; return whether all succeeded."""
        for action in planned:
            if isinstance(action, actions.WriteStatus):
                self._status_changes()
            try:
                done = await self.actuator.carry_out(action)
            except (ConflictError, NotFoundError):
                return False
            finally:
                if isinstance(action, actions.WriteStatus):
                    self._status_changes()
            if done is None:
                return False
            self.applied.append(done)
            if isinstance(done, actions.WriteStatus):
                self.on_slots(self.actuator.fleet.upgrade, done.status.in_flight)
        return True

    async def for_nodes(self, planned: Iterable[actions.NodeAction]) -> bool:
        """Carry out actions for nodes, those of one node in order; return whether all succeeded."""
        by_node = dict[NodeName | None, list[actions.NodeAction]]()
        for action in planned:
            by_node.setdefault(_node_of(action), []).append(action)
        until = asyncio.get_running_loop().time() + BEGIN_SECONDS
        writes = [asyncio.ensure_future(self._for_node(each, until)) for each in by_node.values()]
        try:
            return all(await asyncio.gather(*writes))
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _for_node(self, planned: Iterable[actions.NodeAction], until: float) -> bool:
        for action in planned:
            async with self._permits:
                if type(action) in self._unanswered or asyncio.get_running_loop().time() > until:
                    return False
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        done = await self.actuator.carry_out(action)
                except (RejectedError, UnavailableError, TimeoutError) as error:
                    self._unanswered |= set() if isinstance(error, RejectedError) else {type(action)}
                    problem = str(error) or f"the API server has not answered for {PATIENCE_SECONDS:.0f} s"
                    memory, now = self.actuator.memory, self.actuator.kube.utcnow()
                    memory.failures = memory.failures.failed(action, problem, now)
                    return False
            if done is None:
                return False
            self.applied.append(done)
        return True

    def _status_changes(self) -> None:
        """Let nothing count as recent that was read while the status is written, or before."""
        memory = self.actuator.memory
        memory.status_writes, memory.recent = memory.status_writes + 1, None


def _node_of(action: actions.NodeAction) -> NodeName | None:
    """Return the node that an action writes for; None if it writes for the NodeUpgrade, or nothing."""
    return None if isinstance(action, actions.Told) else getattr(action, "node", None)


_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


def events(action: actions.NodeAction, upgrade: Upgrade) -> tuple[Event, ...]:
    """Return the events for an action: on the Node concerned, and on the NodeUpgrade.

    On the NodeUpgrade, successes are reported per wave and not per node, because a fleet has thousands of nodes.
    """
    rollout = UPGRADES.as_regarding(upgrade.name, upgrade.uid)

    def event(regarding: Json, *, warning: bool = False) -> Event:
        return Event(regarding=regarding, reason=action.reason, message=action.message, warning=warning)

    def node_of(task: Task) -> Json:
        return NODES.as_regarding(task.name, task.spec.node_uid)

    match action:
        case actions.Report(warning=warning):
            return (event(rollout, warning=warning),)
        case actions.Refuse() | actions.Abort() | actions.DropTask():
            return (event(rollout, warning=True),)
        case actions.Skip() | actions.WaveNews():
            return (event(rollout),)
        case actions.RaiseGuard(task=task) | actions.DeclineGuard(task=task) | actions.LiftGuard(task=task):
            return (event(node_of(task), warning=isinstance(action, actions.DeclineGuard)),)
        case actions.Cordon(view=node) | actions.RestoreCordon(view=node):
            return (event(NODES.as_regarding(node.name, node.uid)),)
        case actions.Judge(task=task, verdict=verdict):
            warning = verdict.outcome not in _GOOD
            about_node = event(node_of(task), warning=warning)
            return (event(rollout, warning=True), about_node) if warning else (about_node,)
        case actions.RecordHook(task=task, hook=hook) if hook.result is not HookResult.SUCCEEDED:
            return (event(rollout, warning=True), event(node_of(task), warning=True))
        case actions.CreateAgent(task=task) | actions.StartHook(task=task):
            return (event(TASKS.as_regarding(task.name, task.uid)),)
        case _:
            return ()
