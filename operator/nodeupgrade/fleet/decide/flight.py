"""The next action for one node in flight: a pure function of what the API shows.

Nothing is remembered between calls. After a crash, a restarted operator arrives at the same action as the interrupted
one, because every write of the engine changes what this module reads.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind, new_run_id, of_kind
from nodeupgrade.api.task.spec import CordonRecord, GuardGrant, TaskAction, TaskSpec
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import DeletionPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import (
    Cordon,
    CreateAgent,
    DeleteAgent,
    FreeSlot,
    Judge,
    MarkTask,
    NodeAction,
    RestoreCordon,
    StartHook,
    StartTask,
    Wait,
)
from nodeupgrade.fleet.agents.lifecycle import Agents, next_agent_action
from nodeupgrade.fleet.agents.missing_nodes import is_given_up, lost_failure, lost_verdict
from nodeupgrade.fleet.decide import gates
from nodeupgrade.fleet.decide.admission import accept, judge
from nodeupgrade.fleet.decide.baseline import Baseline
from nodeupgrade.fleet.decide.candidate import Candidate, task_spec
from nodeupgrade.fleet.decide.leaving_flight import clear_away, end, pods_of
from nodeupgrade.fleet.decide.membership import selects
from nodeupgrade.fleet.decide.verdict import decide_verdict, was_touched
from nodeupgrade.fleet.guard import lifecycle, requirement
from nodeupgrade.fleet.hooks import hooks
from nodeupgrade.fleet.snapshot import FleetSnapshot, LostAgents
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelethash import KubeletVersion


def advance(fleet: FleetSnapshot, name: NodeName, now: datetime) -> tuple[NodeAction, ...]:
    """Return the next action for a node; when nothing is left but to clean up, all that remain, in their order.

    Each of the latter writes another object, under its own precondition; if one fails, the rest must not follow. A node
    without a slot is not touched. The last action is ``FreeSlot``, which ``planner.plan`` carries out. An action that
    backs off is replaced by a Wait.
    """
    upgrade = fleet.upgrade
    if (slot := upgrade.status.slot(name)) is None or name in fleet.done or (upgrade.deleting and upgrade.abandoned):
        return ()
    spec = accept(upgrade, now, fleet.allowed)
    if isinstance(spec, UpgradeSpec) and not upgrade.has_finalizer:
        return ()
    due = list[NodeAction]()
    for action in _remaining(fleet, slot, None if isinstance(spec, Finding) else spec, now):
        if (setback := fleet.setback_of(action)) is not None and now < setback.again:
            return (*due, Wait(node=name, reason=setback.reason, message=setback.finding(name).message))
        due.append(action)
    return tuple(due)


def _remaining(fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec | None, now: datetime) -> tuple[NodeAction, ...]:
    """Return what remains to be done; if the spec is None because it is not accepted, no run may begin."""
    name = slot.node
    if (problem := fleet.unreadable.get(name)) is not None:
        message = sentence(Reason.OBJECT_UNREADABLE, f"node {name} or its NodeUpgradeTask cannot be read: {problem}")
        return (Wait(node=name, reason=Reason.OBJECT_UNREADABLE, message=message),)
    if (node := fleet.nodes.get(name)) is None:
        return (_gone(fleet, slot, now),)
    held = fleet.tasks.get(name)
    if held is not None and held.spec.upgrade_ref.uid != fleet.upgrade.uid:
        return (clear_away(fleet, name, f"node {name} is held by another NodeUpgrade", now),)
    if held is not None and held.spec.node_uid != node.uid:
        return _replaced(fleet, slot, spec, node, now)
    if held is not None and held.verdict is not None:
        return end(fleet, node, held, now)
    if held is None:
        return (_resume(fleet, slot, spec, node, now),)
    if not held.open:
        return _begin(fleet, slot, spec, node, now)
    if held.reported.phase.terminal:
        return (_verify(fleet, node, held, now),)
    stop = called_off(fleet.upgrade)
    refused = fleet.setbacks.get((name, StartHook))
    if stop is None and not held.is_late(now) and (hook := hooks.before(held, fleet.hook_jobs, refused, now)):
        return (hook,)
    action = next_agent_action(held, _agents(fleet, held), stop, now)
    return ((lifecycle.next_guard_action(fleet, held, now) or action) if isinstance(action, Wait) else action,)


def needs_pods(fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
    """Report whether the next action for a node in flight depends on its pods."""
    task = fleet.own_task(name)
    if task is None:
        return False
    if not task.open:
        return task.verdict is None and name in fleet.nodes
    if not (task.reported.phase.terminal and was_touched(task.reported)):
        return False
    return (heard := lifecycle.reports_by(fleet, task)) is None or heard <= now


def called_off(upgrade: Upgrade) -> Finding | None:
    """Return why runs in flight must be aborted, or None."""
    if (spec := upgrade.spec) is None:
        return None
    if spec.action is RolloutAction.ABORT:
        return Finding(reason=Reason.ABORTED, detail="spec.action is Abort")
    if upgrade.deleting and spec.deletion_policy is DeletionPolicy.ROLLBACK_IN_FLIGHT:
        detail = "the NodeUpgrade is being deleted and spec.deletionPolicy is RollbackInFlight"
        return Finding(reason=Reason.DELETING, detail=detail)
    return None


def _replaced(
    fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec | None, node: NodeView, now: datetime
) -> tuple[NodeAction, ...]:
    """Handle a Node in flight that was deleted and replaced: by the same machine, or by another one of its name."""
    task, message = fleet.tasks[node.name], f"node {node.name} was replaced by another one of the same name"
    if task.verdict is not None:
        return (clear_away(fleet, task.name, f"{message} after its run", now),)
    if not task.open:
        return _turn_back(fleet, node, Finding(reason=Reason.NODE_NOT_FOUND, detail=message, remedy=""))
    return (_resume(fleet, slot, spec, node, now),)


def _gone(fleet: FleetSnapshot, slot: Slot, now: datetime) -> NodeAction:
    """Handle a missing Node: after a run may have begun, wait, since a starting kubelet registers its Node again."""
    name, task = slot.node, fleet.own_task(slot.node)
    message = f"node {name} does not exist any more"
    if not fleet.is_missing(name):
        return clear_away(fleet, name, message, now)
    if not is_given_up(fleet, slot, now):
        message = f"{message}, but its run may continue and its kubelet may register it again"
        return Wait(node=name, reason=Reason.NODE_NOT_FOUND, message=message)
    if task is not None:
        verdict = lost_verdict(task, now)
        return Judge(task=task, verdict=verdict, reason=verdict.reason, message=verdict.message)
    return clear_away(fleet, name, message, now, lost_failure(slot, now))


def _agents(fleet: FleetSnapshot, task: Task) -> Agents:
    lost = fleet.agents_lost.get(task.name, LostAgents())
    lost = lost if lost.run_id == task.spec.run_id else LostAgents()
    refused = fleet.setbacks.get((task.name, CreateAgent))
    pod, artifact = fleet.agents.get(task.name), fleet.artifacts.get(task.name)
    return Agents(pod=pod, artifact=artifact, lost=lost, refused=refused)


def _begin(
    fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec | None, node: NodeView, now: datetime
) -> tuple[NodeAction, ...]:
    """Cordon the node, then start its run; turn back if an obstacle appears before the run starts."""
    ours, task = node.cordoned_by == fleet.upgrade.uid, fleet.own_task(node.name)
    if task is not None and node.name in fleet.starts_unanswered:
        message = (
            f"the API server did not answer the start of node {node.name}, so it is unknown whether it was started"
        )
        return (MarkTask(task=task, reason=Reason.PROGRESSING, message=message),)
    if spec is None:
        detail = f"the spec is not accepted and node {node.name} is untouched"
        return _turn_back(fleet, node, Finding(reason=Reason.SPEC_CHANGE_REJECTED, detail=detail, remedy=""))
    if (obstacle := _obstacle(fleet, slot, spec, node, now)) is not None:
        return _turn_back(fleet, node, obstacle)
    if (pods := fleet.pods.get(node.name)) is None:
        return (Wait(node=node.name, reason=Reason.PROGRESSING, message="its pods have not been read yet"),)
    if spec.action is RolloutAction.PLAN:  # a precheck neither cordons the node nor needs a baseline
        cordon = CordonRecord(was_unschedulable=node.unschedulable)
        run = _started(fleet, slot, spec, node, TaskAction.PRECHECK, cordon=cordon, now=now)
        return (_start(fleet, run, "", f"node {node.name} is examined for {spec.version}"),)
    if not node.unschedulable and not ours:
        return (_cordon(fleet, node, f"node {node.name} is cordoned for its upgrade"),)
    cordon = CordonRecord(was_unschedulable=node.unschedulable and not ours, by_us=ours)
    run = _started(fleet, slot, spec, node, TaskAction.UPGRADE, cordon=cordon, now=now)
    message = f"node {node.name} is to go from {node.kubelet_version} to {spec.version}"
    return (_start(fleet, run, Baseline.capture(pods).render(), message),)


def _start(fleet: FleetSnapshot, run: TaskSpec, baseline: str, message: str) -> StartTask:
    held, reason = fleet.tasks.get(run.node_name), Reason.ADMITTED
    return StartTask(node=run.node_name, spec=run, baseline=baseline, claims=held, reason=reason, message=message)


def _cordon(fleet: FleetSnapshot, node: NodeView, message: str) -> Cordon:
    announces = history.NODE_LIFECYCLE_CONDITIONS.applies_to(fleet.server) and not node.maintenance
    return Cordon(view=node, announces=announces, reason=Reason.CORDONED, message=message)


def _resume(fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec | None, node: NodeView, now: datetime) -> NodeAction:
    """Take up the run of a node whose task was deleted, or whose Node registered anew.

    Only an agent on the node sees whether the run continues. The baseline is lost with the task, so that the control
    plane cannot detect earlier restarts.
    """
    name, ours, held = node.name, node.cordoned_by == fleet.upgrade.uid, fleet.tasks.get(node.name)
    if (failure := fleet.record_of(name)) is not None:
        return _end_without_task(fleet, node, failure, ours=ours)
    if spec is not None and spec.action is RolloutAction.PLAN and not ours:
        return clear_away(fleet, name, f"node {name} is not claimed any more, and untouched", now)
    what = "its task is gone" if held is None else "it registered anew"
    if spec is None or not spec.artifact.serves(node.platform):
        message = f"node {name}: {what}; its run is taken up once the spec is accepted"
        return Wait(node=name, reason=Reason.TASK_LOST, message=message)
    if not node.unschedulable:
        return _cordon(fleet, node, f"node {name} is cordoned: {what}, and its run may continue")
    cordon = CordonRecord(was_unschedulable=not ours, by_us=ours)
    run = _started(fleet, slot, spec, node, TaskAction.UPGRADE, cordon=cordon, now=now)
    run = replace(run, run_id=new_run_id(fleet.upgrade.uid, now), resumes=True)
    if not selects(spec.nodes, node):
        because = f"node {name} is not selected any more"
        run = replace(run, action=TaskAction.ABORT, action_reason=Reason.TASK_LOST.value, action_message=because)
    message = f"the run of node {name} is taken up: {what}, and it may continue"
    return StartTask(node=name, spec=run, baseline="", claims=held, reason=Reason.TASK_LOST, message=message)


def _end_without_task(fleet: FleetSnapshot, node: NodeView, failure: NodeFailure, *, ours: bool) -> NodeAction:
    """Clean up after a run whose verdict is on record, and whose task is gone."""
    name = node.name
    if ours and failure.outcome is not Verdict.ROLLBACK_FAILED:
        return RestoreCordon(view=node, reason=Reason.UNCORDONED, message=f"node {name} is schedulable again")
    if pods := pods_of(fleet, name):
        return DeleteAgent(pod=pods[0], reason=Reason.PROGRESSING, message=f"the run on node {name} is over")
    return FreeSlot(node=name, reason=Reason.PROGRESSING, message=f"node {name} is done")


def _turn_back(fleet: FleetSnapshot, node: NodeView, obstacle: Finding) -> tuple[NodeAction, ...]:
    """Undo the cordon of a node that is not started after all, and free its slot.

    Before that, its task is marked with this leader's epoch, so that a late start by another leader is void.
    """
    reason, message, task = obstacle.reason, obstacle.message, fleet.tasks.get(node.name)
    turned = list[NodeAction]()
    if task is not None and fleet.epoch not in {"", task.epoch}:
        turned.append(MarkTask(task=task, reason=reason, message=message))
    if node.cordoned_by == fleet.upgrade.uid:
        turned.append(RestoreCordon(view=node, reason=reason, message=message))
    return (*turned, FreeSlot(node=node.name, reason=reason, message=message))


def _obstacle(fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec, node: NodeView, now: datetime) -> Finding | None:
    """Return why a node that was admitted but not touched must not be started after all, or None."""
    if fleet.upgrade.deleting:
        detail = f"the NodeUpgrade is being deleted and node {node.name} is untouched"
        return Finding(reason=Reason.DELETING, detail=detail, remedy="")
    if spec.action is RolloutAction.ABORT:
        detail = f"spec.action is Abort and node {node.name} is untouched"
        return Finding(reason=Reason.ABORTED, detail=detail, remedy="")
    if not selects(spec.nodes, node):
        return Finding(reason=Reason.NOT_SELECTED, detail=f"node {node.name} is not selected any more", remedy="")
    due = gates.PRECHECK_GATES if spec.action is RolloutAction.PLAN else gates.GATES
    closed = gates.closed(due, gates.of_slot(fleet, spec, slot, now))
    return closed or judge(Candidate(fleet=fleet, spec=spec, node=node, now=now))


def _started(
    fleet: FleetSnapshot,
    slot: Slot,
    spec: UpgradeSpec,
    node: NodeView,
    action: TaskAction,
    *,
    cordon: CordonRecord,
    now: datetime,
) -> TaskSpec:
    """Return the spec of the run of a slot, resolved again because mutable fields may have been edited."""
    own, precheck = fleet.own_task(node.name), action is TaskAction.PRECHECK
    candidate = Candidate(fleet=fleet, spec=spec, node=node, now=now)
    fresh = task_spec(candidate, wave=slot.wave, order=0)
    wanted = probe_delay.is_guarded(spec.verify, KubeletVersion.parse(spec.version))
    return replace(
        fresh,
        run_id=of_kind(RunId(slot.run) or fresh.run_id, RunKind.PRECHECK if precheck else RunKind.UPGRADE),
        order=fresh.order if own is None else own.spec.order,
        retry=fresh.retry if own is None else own.spec.retry,
        action=action,
        deadline=now + spec.timeouts.node + (timedelta() if precheck else hooks.time_before(spec.hooks)),
        hooks=() if precheck else hooks.of_run(spec.hooks),
        guard=GuardGrant(wanted=wanted and requirement.obstacle(fleet.server, fleet.guard) is None),
        cordon=cordon,
    )


def _verify(fleet: FleetSnapshot, node: NodeView, task: Task, now: datetime) -> NodeAction:
    """Decide the verdict on a finished run, once the guard no longer keeps the kubelet from reporting not Ready."""
    if was_touched(task.reported):
        if (ending := lifecycle.end(fleet, task, now)) is not None:
            return ending
        if (heard := lifecycle.reports_by(fleet, task)) is not None and now < heard:
            message = f"the kubelet of node {node.name} was guarded until now and may not have reported yet"
            return Wait(node=node.name, reason=Reason.NOT_YET_VERIFIED, message=message, until=heard)
    verdict = decide_verdict(node, task, fleet.pods.get(node.name), now)
    if isinstance(verdict, Finding):
        return Wait(node=node.name, reason=verdict.reason, message=verdict.message)
    return Judge(task=task, verdict=verdict, reason=verdict.reason, message=verdict.message)
