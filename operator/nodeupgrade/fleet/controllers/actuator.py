"""The actuator turns actions into writes, with preconditions so that a stale one changes nothing, and into events."""

import contextlib
from dataclasses import dataclass, replace
from typing import assert_never

from nodeupgrade.api.json import Json, merge_patch, to_json
from nodeupgrade.api.printable import stored
from nodeupgrade.api.task.object import (
    BASELINE_ANNOTATION,
    EPOCH_MARK,
    HELD_SINCE_ANNOTATION,
    SETTLED_ANNOTATION,
    UPGRADE_LABEL,
    Task,
)
from nodeupgrade.api.task.spec import TaskAction, TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.object import FINALIZER
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.cluster.kube_api import (
    NODES,
    PODS,
    TASKS,
    UPGRADES,
    ConflictError,
    InvalidError,
    NotFoundError,
    RejectedError,
)
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet import actions
from nodeupgrade.fleet.agents.manifests import pod_for
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder, events
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from nodeupgrade.fleet.controllers.snapshots import Snapshots
from nodeupgrade.fleet.cordons.cordons import cordon, uncordon
from nodeupgrade.fleet.guard.lifecycle import decline, is_asked_for
from nodeupgrade.fleet.hooks.jobs import start_hook
from nodeupgrade.fleet.snapshot import FleetSnapshot


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
            if not isinstance(action, actions.ReportOnly):
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

    async def _apply(self, action: actions.Write) -> None:  # noqa: PLR0912 - one case for each action
        upgrade, kube, now = self.fleet.upgrade, self.kube, self.kube.utcnow()
        namespace = self.snapshots.agents.namespace
        match action:
            case actions.AddFinalizer():
                await self._merge_upgrade({"finalizers": [*upgrade.finalizers, FINALIZER]})
            case actions.RemoveFinalizer():
                await self._merge_upgrade({"finalizers": [each for each in upgrade.finalizers if each != FINALIZER]})
            case actions.WriteStatus(status=status):
                await self._write_status(status)
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
            case actions.ClearTaskStatus(task=task):  # no run ID: no run has begun
                await self._replace_status(task, TaskStatus(observed_generation=task.generation))
            case actions.GiveUp(task=task):
                await self._replace_status(task, action.status(now))
            case actions.MarkTask(task=task):  # always another value
                await self._annotate(task, {**self._mark, SETTLED_ANNOTATION: now.isoformat()})
            case actions.RecordHold(task=task):
                await self._annotate(task, {HELD_SINCE_ANNOTATION: now.isoformat()})
            case actions.StartHook(task=task, hook=hook):
                await start_hook(kube, namespace, task, hook)
            case actions.RecordHook(task=task):
                await self._merge_task(task, {"spec": {"hooks": to_json(action.hooks)}})
            case actions.Abort(task=task, reason=reason, message=message):
                asked = {"action": TaskAction.ABORT.value, "actionReason": reason.value}
                await self._merge_task(task, {"spec": {**asked, "actionMessage": stored(message)}})
            case actions.Judge(task=task, verdict=verdict):
                changed = merge_patch(to_json(task.spec.verdict) or {}, to_json(verdict))
                await self._merge_task(task, {"spec": {"verdict": changed}})
            case actions.ReleaseTask(task=task):
                metadata = {"annotations": {BASELINE_ANNOTATION: None}}
                await self._merge_task(task, {"spec": {"action": TaskAction.RELEASE.value}, "metadata": metadata})
            case actions.DropTask(task=task):
                await kube.delete(TASKS, task.name, uid=task.uid, resource_version=task.resource_version)
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

    async def _write_status(self, status: UpgradeStatus) -> None:
        """Write the status; if it is invalid, without what nodes' reports add to it: no slot depends on that."""
        upgrade, version = self.fleet.upgrade, self.fleet.upgrade.resource_version
        try:
            await self.kube.replace_status(UPGRADES, upgrade.name, to_json(status), resource_version=version)
        except InvalidError:
            before = upgrade.status
            least = replace(
                status,
                failures=before.failures,
                skips=before.skips,
                accepted=before.accepted,
                containers=before.containers,
                preview=before.preview,
            )
            await self.kube.replace_status(UPGRADES, upgrade.name, to_json(least), resource_version=version)

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
        upgrade = self.fleet.upgrade
        labels, annotations = {UPGRADE_LABEL: upgrade.name}, {**annotations, **self._mark}
        # Deleted when both are gone: a failure outlives its Node, and what may be in progress outlives its NodeUpgrade.
        owners = [UPGRADES.as_owner(upgrade.name, upgrade.uid), NODES.as_owner(spec.node_name, spec.node_uid)]
        if held is not None:
            changed = merge_patch(to_json(held.spec), to_json(spec))
            own = held.spec.upgrade_ref.uid == spec.upgrade_ref.uid
            forgotten = {BASELINE_ANNOTATION: None, **({} if own else {HELD_SINCE_ANNOTATION: None})}
            metadata: Json = {
                "labels": labels,
                "annotations": {**forgotten, **annotations},
                "ownerReferences": owners,
            }
            await self._merge_task(held, {"metadata": metadata, "spec": changed})
            return
        body = {
            "apiVersion": TASKS.api_version,
            "kind": TASKS.kind,
            "metadata": {
                "name": spec.node_name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": owners,
            },
            "spec": to_json(spec),
        }
        await self.kube.create(TASKS, body)

    async def _create_agent(self, action: actions.CreateAgent) -> None:
        agents = self.snapshots.agents
        body = pod_for(action.role, action.task, agents, action.artifact)
        with contextlib.suppress(ConflictError):  # an interrupted plan created it; the next one reads what exists
            await self.kube.create(PODS.within(agents.namespace), body)
