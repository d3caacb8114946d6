"""The next action for one node in flight: a pure function of what the API shows.

Nothing is remembered between calls. After a crash, a restarted operator arrives at the same action as the interrupted
one, because every write of the engine changes what this module reads.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import new_run_id, of_kind
from nodeupgrade.api.task.spec import CordonRecord, GuardGrant, TaskAction, TaskSpec
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import DeletionPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.values import NodeName, RunId, RunKind
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import Cordon, FreeSlot, Judge, MarkTask, NodeAction, RestoreCordon, StartTask, Wait
from nodeupgrade.fleet.agents.lifecycle import next_agent_action
from nodeupgrade.fleet.decide import gates
from nodeupgrade.fleet.decide.admission import accept, judge
from nodeupgrade.fleet.decide.baseline import Baseline
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.in_flight import InFlight
from nodeupgrade.fleet.decide.leaving_flight import clear_away, end, end_without_task, gone
from nodeupgrade.fleet.decide.verdict import decide_verdict, was_touched
from nodeupgrade.fleet.guard import lifecycle
from nodeupgrade.fleet.hooks import hooks
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelet import probe_delay


def advance(fleet: FleetSnapshot, name: NodeName, now: datetime) -> tuple[NodeAction, ...]:
    """Return the next action for a node; when nothing is left but to clean up, all that remain, in their order.

    Each of the latter writes another object, under its own precondition; if one fails, the rest must not follow. A node
    without a slot is not touched. The last action is ``FreeSlot``, which ``planner.plan`` carries out. An action that
    backs off is replaced by a Wait.
    """
    upgrade = fleet.upgrade
    if upgrade.status.slot(name) is None or name in fleet.done or (upgrade.deleting and upgrade.abandoned):
        return ()
    spec = accept(upgrade, now, fleet.allowed)
    if isinstance(spec, UpgradeSpec) and not upgrade.has_finalizer:
        return ()
    flight = InFlight.of(fleet, fleet.slots[name], None if isinstance(spec, Finding) else spec, now)
    due = _marked(flight, _remaining(fleet, flight))
    for index, action in enumerate(due):
        if (setback := fleet.setback_of(action)) is not None and now < setback.again:
            return (*due[:index], Wait(node=name, reason=setback.reason, message=setback.finding(name).message))
    return due


def _marked(flight: InFlight, due: tuple[NodeAction, ...]) -> tuple[NodeAction, ...]:
    """Mark the task of a node that was not started, before its slot is freed: a former leader's start is void then."""
    task, last = flight.known.task, due[-1]
    if not isinstance(last, FreeSlot) or task is None or task.spec.upgrade_ref.uid != flight.upgrade.uid:
        return due
    if task.verdict is not None or flight.epoch in {"", task.epoch}:
        return due
    return (MarkTask(task=task, reason=last.reason, message=last.message), *due)


def _remaining(fleet: FleetSnapshot, flight: InFlight) -> tuple[NodeAction, ...]:
    """Return what remains to be done."""
    name, known = flight.name, flight.known
    node, task = known.view, known.task
    if known.problem is not None:
        because = f"node {name} or its NodeUpgradeTask cannot be read: {known.problem}"
        reason = Reason.OBJECT_UNREADABLE
        return (Wait(node=name, reason=reason, message=sentence(reason, because)),)
    if node is None:
        return (gone(flight),)
    if task is None:
        return (_resume(flight, node),)
    if task.spec.upgrade_ref.uid != flight.upgrade.uid:
        return (clear_away(flight, f"node {name} is held by another NodeUpgrade"),)
    if task.spec.node_uid != node.uid:
        return _replaced(flight, node, task)
    if task.verdict is not None:
        return end(flight, node, task)
    if not task.open:
        return _begin(fleet, flight, node, task)
    if task.reported.phase.terminal:
        return (_verify(flight, node, task),)
    return (_accompany(fleet, flight, node, task),)


def needs_pods(fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
    """Report whether the next action for a node in flight depends on its pods."""
    task = fleet.own_task(name)
    if task is None:
        return False
    if not task.open:
        return task.verdict is None and name in fleet.nodes
    if not (task.reported.phase.terminal and was_touched(task.reported)):
        return False
    return (heard := lifecycle.reports_by(fleet.guard, task)) is None or heard <= now


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


def _accompany(fleet: FleetSnapshot, flight: InFlight, node: NodeView, task: Task) -> NodeAction:
    """Return the next action for a run that is not over: for its hooks, its agent or its guard."""
    stop, now = called_off(flight.upgrade), flight.now
    may_begin = stop is None and not task.is_late(now)
    if may_begin and (hook := hooks.before(task, flight.hook_jobs, flight.hook_refused, now)) is not None:
        return hook
    action = next_agent_action(task, flight.agents, stop, now)
    if not isinstance(action, Wait):
        return action
    guard, obstacle = flight.guard, flight.guard_obstacle
    return lifecycle.next_guard_action(task, node, guard, obstacle, busy=fleet.busy, now=now) or action


def _replaced(flight: InFlight, node: NodeView, task: Task) -> tuple[NodeAction, ...]:
    """Handle a Node in flight that was deleted and replaced: by the same machine, or by another one of its name."""
    message = f"node {node.name} was replaced by another one of the same name"
    if task.verdict is not None:
        return (clear_away(flight, f"{message} after its run"),)
    if not task.open:
        return _turn_back(flight, node, Finding(reason=Reason.NODE_NOT_FOUND, detail=message, remedy=""))
    return (_resume(flight, node),)


def _begin(fleet: FleetSnapshot, flight: InFlight, node: NodeView, task: Task) -> tuple[NodeAction, ...]:
    """Cordon the node, if it is to be, and start its run; turn back if an obstacle appears before that."""
    name, ours, candidate = node.name, flight.cordoned_by_us, flight.candidate
    if flight.unanswered:
        message = f"the API server did not answer the start of node {name}, so it is unknown whether it was started"
        return (MarkTask(task=task, reason=Reason.PROGRESSING, message=message),)
    if candidate is None:
        detail = f"the spec is not accepted and node {name} is untouched"
        return _turn_back(flight, node, Finding(reason=Reason.SPEC_CHANGE_REJECTED, detail=detail, remedy=""))
    if (obstacle := _obstacle(fleet, flight, candidate)) is not None:
        return _turn_back(flight, node, obstacle)
    if flight.pods is None:
        return (Wait(node=name, reason=Reason.PROGRESSING, message="its pods have not been read yet"),)
    version = candidate.spec.version
    if flight.kind is RunKind.PRECHECK:  # a precheck neither cordons the node nor needs a baseline
        run = _run(flight, candidate, TaskAction.PRECHECK, CordonRecord(was_unschedulable=node.unschedulable))
        return (_start(flight, run, "", f"node {name} is examined for {version}"),)
    if candidate.spec.nodes.cordon and not node.unschedulable and not ours:
        return (_cordon(flight, node, f"node {name} is cordoned for its upgrade"),)
    cordon = CordonRecord(was_unschedulable=node.unschedulable and not ours, by_us=ours)
    run = _run(flight, candidate, TaskAction.UPGRADE, cordon)
    message = f"node {name} is to go from {node.kubelet_version} to {version}"
    return (_start(flight, run, Baseline.capture(flight.pods).render(), message),)


def _start(flight: InFlight, run: TaskSpec, baseline: str, message: str) -> StartTask:
    reason = Reason.TASK_LOST if run.resumes else Reason.ADMITTED
    return StartTask(
        node=flight.name, spec=run, baseline=baseline, claims=flight.known.task, reason=reason, message=message
    )


def _cordon(flight: InFlight, node: NodeView, message: str) -> Cordon:
    announces = flight.announces and not node.maintenance
    return Cordon(view=node, announces=announces, reason=Reason.CORDONED, message=message)


def _resume(flight: InFlight, node: NodeView) -> NodeAction:
    """Take up the run of a node whose task was deleted, or whose Node registered anew.

    Only an agent on the node sees whether the run continues. The baseline is lost with the task, so that the control
    plane cannot detect earlier restarts. What only examined the node is not taken up: it would become an upgrade.
    """
    name, ours, candidate = node.name, flight.cordoned_by_us, flight.candidate
    if flight.known.record is not None:
        return end_without_task(flight, node, flight.known.record)
    if flight.kind is RunKind.PRECHECK:
        return clear_away(flight, f"node {name} is not claimed any more, and untouched")
    what = "its task is gone" if flight.known.task is None else "it registered anew"
    if candidate is None or not candidate.spec.artifact.serves(node.platform):
        message = f"node {name}: {what}; its run is taken up once the spec is accepted"
        return Wait(node=name, reason=Reason.TASK_LOST, message=message)
    if candidate.spec.nodes.cordon and not node.unschedulable:
        return _cordon(flight, node, f"node {name} is cordoned: {what}, and its run may continue")
    run = _run(
        flight,
        candidate,
        TaskAction.UPGRADE,
        CordonRecord(was_unschedulable=node.unschedulable and not ours, by_us=ours),
    )
    run = replace(run, run_id=new_run_id(flight.upgrade.uid, flight.now), resumes=True)
    if not _is_selected(candidate):
        because = f"node {name} is not selected any more"
        run = replace(run, action=TaskAction.ABORT, action_reason=Reason.TASK_LOST.value, action_message=because)
    return _start(flight, run, "", f"the run of node {name} is taken up: {what}, and it may continue")


def _turn_back(flight: InFlight, node: NodeView, obstacle: Finding) -> tuple[NodeAction, ...]:
    """Undo the cordon of a node that is not started after all, and free its slot."""
    reason, message = obstacle.reason, obstacle.message
    return (
        *((RestoreCordon(view=node, reason=reason, message=message),) if flight.cordoned_by_us else ()),
        FreeSlot(node=node.name, reason=reason, message=message),
    )


def _obstacle(fleet: FleetSnapshot, flight: InFlight, candidate: Candidate) -> Finding | None:
    """Return why a node that was admitted but not touched must not be started after all, or None."""
    name, action = flight.name, candidate.spec.action
    if flight.upgrade.deleting:
        detail = f"the NodeUpgrade is being deleted and node {name} is untouched"
        return Finding(reason=Reason.DELETING, detail=detail, remedy="")
    if action is RolloutAction.ABORT:
        detail = f"spec.action is Abort and node {name} is untouched"
        return Finding(reason=Reason.ABORTED, detail=detail, remedy="")
    if not _is_selected(candidate):
        return Finding(reason=Reason.NOT_SELECTED, detail=f"node {name} is not selected any more", remedy="")
    if flight.kind is not action.run_kind:
        detail = f"the slot of node {name} was not taken for what spec.action asks for now"
        return Finding(reason=Reason.REOPENED, detail=detail, remedy="")
    due = gates.PRECHECK_GATES if action is RolloutAction.PLAN else gates.GATES
    return gates.closed(due, gates.of_slot(fleet, candidate.spec, flight.slot, flight.now)) or judge(candidate)


def _is_selected(candidate: Candidate) -> bool:
    return candidate.spec.nodes.selects(candidate.node.name, candidate.node.labels)


def _run(flight: InFlight, candidate: Candidate, action: TaskAction, cordon: CordonRecord) -> TaskSpec:
    """Return the spec of the run of a slot, resolved again because mutable fields may have been edited."""
    spec, fresh, own, precheck = candidate.spec, candidate.task_spec, flight.known.own, action is TaskAction.PRECHECK
    wanted = probe_delay.is_guarded(spec.verify, candidate.target)
    return replace(
        fresh,
        run_id=RunId(flight.slot.run) or of_kind(fresh.run_id, flight.kind),
        wave=flight.slot.wave,
        order=fresh.order if own is None else own.spec.order,
        retry=fresh.retry if own is None else own.spec.retry,
        action=action,
        deadline=flight.now + spec.timeouts.node + (timedelta() if precheck else hooks.time_before(spec.hooks)),
        hooks=() if precheck else hooks.of_run(spec.hooks),
        guard=GuardGrant(wanted=wanted and flight.guard_obstacle is None),
        cordon=cordon,
    )


def _verify(flight: InFlight, node: NodeView, task: Task) -> NodeAction:
    """Decide the verdict on a finished run, once the guard no longer keeps the kubelet from reporting not Ready."""
    if was_touched(task.reported):
        if (ending := lifecycle.end(flight.guard, task, flight.now)) is not None:
            return ending
        if (heard := lifecycle.reports_by(flight.guard, task)) is not None and flight.now < heard:
            message = f"the kubelet of node {node.name} was guarded until now and may not have reported yet"
            return Wait(node=node.name, reason=Reason.NOT_YET_VERIFIED, message=message, until=heard)
    verdict = decide_verdict(node, task, flight.pods, flight.now)
    if isinstance(verdict, Finding):
        return Wait(node=node.name, reason=verdict.reason, message=verdict.message)
    return Judge(task=task, verdict=verdict, reason=verdict.reason, message=verdict.message)
