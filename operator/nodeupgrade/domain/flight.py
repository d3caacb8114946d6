"""The next action for one node in flight: a pure function of what the API shows.

Nothing is remembered between calls. Whoever reads this after a crash comes to the same answer as whoever was
interrupted, because every write of the engine changes what is seen here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from nodeupgrade.domain import baseline
from nodeupgrade.domain.actions import (
    Abort,
    Cordon,
    CreateAgent,
    DeleteAgent,
    DropTask,
    FreeSlot,
    GiveUp,
    Judge,
    NodeAction,
    Release,
    RestoreCordon,
    StartTask,
    Wait,
)
from nodeupgrade.domain.admission import Candidate, judge, resolve_artifact
from nodeupgrade.domain.fleet import FleetSnapshot
from nodeupgrade.domain.reasons import Reason, sentence
from nodeupgrade.domain.standing import candidate
from nodeupgrade.domain.task import CordonRecord, Task, TaskAction, TaskSpec, UpgradeRef, Verdict
from nodeupgrade.domain.upgrade import UpgradeSpec
from nodeupgrade.domain.values import NodeName, RunId
from nodeupgrade.domain.verdict import decide_verdict
from nodeupgrade.domain.views import AgentPodView, NodeView

AGENT_MAY_TAKE = timedelta(minutes=3)
"""How long an agent pod that reports a start-up problem is given; image pulls are retried within it."""

AGENT_REPLACED_AFTER = timedelta(seconds=10)
"""Age below which a failed agent pod is not replaced, so that a crash loop does not become a storm."""


def advance(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, now: datetime) -> NodeAction:
    """Return the one next action for a node that holds a slot."""
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
    return _attend(fleet, node, task, now)


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
        deadline=now + spec.node_timeout,
        cordon=CordonRecord(was_unschedulable=node.unschedulable and not by_us, by_us=by_us),
    )


def _attend(fleet: FleetSnapshot, node: NodeView, task: Task, now: datetime) -> NodeAction:
    """See to it that an agent runs while the run is not over."""
    pod = fleet.agents.get(node.name)
    late = task.spec.deadline is not None and now > task.spec.deadline
    silent = task.status.run_id != task.spec.run_id
    if late and task.spec.action is TaskAction.UPGRADE:
        message = sentence(Reason.ABORTED, f"node {node.name} took longer than spec.timeouts.node")
        return Abort(node=node.name, task=task, reason=Reason.ABORTED, message=message)
    if pod is None:
        if silent and task.spec.action is TaskAction.ABORT:
            return _give_up(task)
        replaced = not silent
        reason = Reason.AGENT_REPLACED if replaced else Reason.AGENT_STARTED
        message = f"an agent is {'started again' if replaced else 'started'} on node {node.name}"
        return CreateAgent(node=node.name, task=task, reason=reason, message=message)
    return _attend_pod(task, pod, silent=silent, now=now)


def _attend_pod(task: Task, pod: AgentPodView, *, silent: bool, now: datetime) -> NodeAction:
    node, age = task.name, now - pod.created_at
    if pod.deleting:
        return Wait(node=node, reason=Reason.PROGRESSING, message=f"agent pod {pod.name} is going away")
    if pod.run_id != task.spec.run_id:
        message = f"agent pod {pod.name} serves another run"
        return DeleteAgent(node=node, pod=pod, reason=Reason.AGENT_REPLACED, message=message)
    stuck = silent and not pod.started
    if stuck and task.spec.action is TaskAction.UPGRADE and pod.blocked and (pod.over or age > AGENT_MAY_TAKE):
        reason = Reason.ARTIFACT_UNAVAILABLE if pod.blocked_on_artifact else Reason.AGENT_UNAVAILABLE
        message = sentence(reason, f"agent pod {pod.name} cannot start: {pod.blocked}")
        return Abort(node=node, task=task, reason=reason, message=message)
    if pod.over:
        if age < AGENT_REPLACED_AFTER:
            return Wait(node=node, reason=Reason.PROGRESSING, message=f"agent pod {pod.name} ended; replaced soon")
        message = f"agent pod {pod.name} ended ({pod.phase}) before the run did"
        return DeleteAgent(node=node, pod=pod, reason=Reason.AGENT_REPLACED, message=message)
    if stuck and task.spec.action is TaskAction.ABORT:
        message = f"agent pod {pod.name} never started"
        return DeleteAgent(node=node, pod=pod, reason=Reason.AGENT_UNAVAILABLE, message=message)
    return Wait(node=node, reason=Reason.PROGRESSING, message=f"node {node} reports {task.reported.phase}")


def _give_up(task: Task) -> NodeAction:
    """No agent has ever said a word, and none exists any more: the node is untouched."""
    known = {reason.value for reason in Reason} - {Reason.ABORTED.value}
    told = task.spec.action_reason
    reason = Reason(told) if told in known else Reason.AGENT_UNAVAILABLE
    because = f"no agent could be started on node {task.name}"
    return GiveUp(
        node=task.name, task=task, reason=reason, message=task.spec.action_message or sentence(reason, because)
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
