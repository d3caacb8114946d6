"""The next action for one node in flight: a pure function of what the API shows.

Nothing is remembered between calls. Whoever reads this after a crash comes to the same answer as whoever was
interrupted, because every write of the engine changes what is seen here.
"""

from __future__ import annotations

from datetime import datetime

from nodeupgrade.domain import baseline
from nodeupgrade.domain.actions import (
    Cordon,
    DeleteAgent,
    DropTask,
    FreeSlot,
    Judge,
    NodeAction,
    Release,
    RestoreCordon,
    StartTask,
    Wait,
)
from nodeupgrade.domain.admission import Candidate, judge, resolve_artifact
from nodeupgrade.domain.attendance import attend
from nodeupgrade.domain.fleet import FleetSnapshot
from nodeupgrade.domain.reasons import Reason, sentence
from nodeupgrade.domain.standing import candidate
from nodeupgrade.domain.task import CordonRecord, Task, TaskAction, TaskSpec, UpgradeRef, Verdict
from nodeupgrade.domain.upgrade_terms import UpgradeSpec
from nodeupgrade.domain.values import NodeName, RunId
from nodeupgrade.domain.verdict import decide_verdict
from nodeupgrade.domain.views import NodeView


def advance(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, now: datetime) -> NodeAction:
    """Return the one next action for a node that holds a slot."""
    if (problem := fleet.unreadable.get(name)) is not None:
        message = sentence(Reason.OBJECT_UNREADABLE, f"node {name} or its NodeUpgradeTask cannot be read: {problem}")
        return Wait(node=name, reason=Reason.OBJECT_UNREADABLE, message=message)
    node = fleet.nodes.get(name)
    if node is None:
        return _clear_away(fleet, name)
    task = fleet.tasks.get(name)
    if task is not None and task.spec.node_uid != node.uid:
        message = f"node {name} was replaced by another one of the same name"
        return DropTask(node=name, task=task, reason=Reason.NODE_NOT_FOUND, message=message)
    task = fleet.own_task(name)
    if task is None:
        return _begin(fleet, spec, node, now)
    if task.verdict is not None:
        return _end(fleet, node, task)
    if task.reported.phase.terminal:
        return _verify(fleet, node, task, now)
    return attend(task, fleet.agents.get(name), now)


def _clear_away(fleet: FleetSnapshot, name: NodeName) -> NodeAction:
    """The node was deleted: nothing can be done there, so nothing holds the slot."""
    message = f"node {name} does not exist any more"
    if (pod := fleet.agents.get(name)) is not None and not pod.deleting:
        return DeleteAgent(node=name, pod=pod, reason=Reason.NODE_NOT_FOUND, message=message)
    if (task := fleet.own_task(name)) is not None:
        return DropTask(node=name, task=task, reason=Reason.NODE_NOT_FOUND, message=message)
    return FreeSlot(node=name, reason=Reason.NODE_NOT_FOUND, message=message)


def _begin(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, now: datetime) -> NodeAction:
    """Cordon, then start the task; turn back as long as nothing but the cordon has happened."""
    ours = node.cordoned_by == fleet.upgrade.uid
    facts = candidate(fleet, spec, node)
    if (obstacle := _obstacle(fleet, facts)) is not None:
        reason, message = obstacle
        if ours:
            return RestoreCordon(node=node.name, view=node, reason=reason, message=message)
        return FreeSlot(node=node.name, reason=reason, message=message)
    if facts.pods is None:
        return Wait(node=node.name, reason=Reason.PROGRESSING, message="its pods have not been read yet")
    if not node.unschedulable and not ours:
        message = f"node {node.name} is cordoned for its upgrade"
        return Cordon(node=node.name, view=node, reason=Reason.CORDONED, message=message)
    return StartTask(
        node=node.name,
        spec=_task_spec(fleet, spec, node, now),
        baseline=baseline.render(baseline.capture(facts.pods)),
        claims=fleet.tasks.get(node.name),
        reason=Reason.ADMITTED,
        message=f"node {node.name} is to go from {node.kubelet_version} to {spec.version}",
    )


def _obstacle(fleet: FleetSnapshot, facts: Candidate) -> tuple[Reason, str] | None:
    """Say why a node that was admitted and is still untouched must not be begun after all."""
    if fleet.upgrade.deleting:
        return Reason.DELETING, f"the NodeUpgrade is being deleted and node {facts.node.name} is untouched"
    objection = judge(facts)
    return None if objection is None else (objection.reason, objection.message)


def _task_spec(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, now: datetime) -> TaskSpec:
    upgrade = fleet.upgrade
    artifact = resolve_artifact(spec.artifact, node.platform)
    if artifact is None:
        raise AssertionError("admission has checked the platform")
    by_us = node.cordoned_by == upgrade.uid
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=RunId(f"{upgrade.uid[:8]}-{now:%Y%m%d%H%M%S}"),
        action=TaskAction.UPGRADE,
        from_version=node.kubelet_version,
        to_version=spec.version,
        allow_downgrade=spec.allow_downgrade,
        artifact=artifact,
        kubelet=spec.kubelet,
        verify=spec.verify,
        deadline=now + spec.timeouts.node,
        cordon=CordonRecord(was_unschedulable=node.unschedulable and not by_us, by_us=by_us),
    )


def _verify(fleet: FleetSnapshot, node: NodeView, task: Task, now: datetime) -> NodeAction:
    verdict = decide_verdict(node, task, fleet.pods.get(node.name), now)
    if isinstance(verdict, str):
        return Wait(node=node.name, reason=Reason.NOT_YET_VERIFIED, message=verdict)
    return Judge(node=node.name, task=task, verdict=verdict, reason=verdict.reason, message=verdict.message)


def _end(fleet: FleetSnapshot, node: NodeView, task: Task) -> NodeAction:
    """Put everything back as it was, then give the slot back."""
    name, verdict, pod = node.name, task.verdict, fleet.agents.get(node.name)
    lost = verdict is not None and verdict.outcome is Verdict.ROLLBACK_FAILED
    if not lost and node.cordoned_by == fleet.upgrade.uid:
        message = f"node {name} is schedulable again"
        return RestoreCordon(node=name, view=node, reason=Reason.UNCORDONED, message=message)
    if pod is not None and not pod.deleting:
        return DeleteAgent(node=name, pod=pod, reason=Reason.PROGRESSING, message=f"the run on node {name} is over")
    if not lost and task.spec.action is not TaskAction.RELEASE:
        return Release(node=name, task=task, reason=Reason.PROGRESSING, message=f"node {name} is accounted for")
    reason = Reason.ROLLBACK_FAILED if lost else Reason.PROGRESSING
    message = f"node {name} stays cordoned until it is repaired" if lost else f"node {name} is done"
    return FreeSlot(node=name, reason=reason, message=message)
