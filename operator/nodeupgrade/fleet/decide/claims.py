"""The writes of a rollout besides its status: claims and their release, admissions, and what ends it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind, new_run_id
from nodeupgrade.api.task.spec import GuardGrant, TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import (
    Admit,
    Claim,
    ClearTaskStatus,
    DropTask,
    FreeSlot,
    Hold,
    NodeAction,
    RecordHold,
    ReleaseTask,
    RemoveFinalizer,
    Reopen,
    Report,
    WriteStatus,
)
from nodeupgrade.fleet.decide.admission import warnings
from nodeupgrade.fleet.decide.candidate import Candidate, past_runs, task_spec
from nodeupgrade.fleet.decide.events import accepted_events, impediment_events, reported
from nodeupgrade.fleet.decide.failures import records_failure, without_slots
from nodeupgrade.fleet.decide.holder import holder
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.start_decision import StartDecision
from nodeupgrade.fleet.decide.upgrade_status import rejected, retry_refused
from nodeupgrade.fleet.snapshot import FleetSnapshot

WRITES_AT_ONCE = 250
"""How many claims, releases and the like a plan has at most."""


def prepare(rollout: RolloutView, decision: StartDecision) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    A rollout that waits for an older one releases its claims. Nothing is retried automatically while the rollout needs
    a person.
    """
    if rollout.upgrade.finished and not rollout.upgrade.retry_requested:
        return ()
    if decision.behind:
        return release_all(rollout.fleet)
    if rollout.is_called_off:
        return ()
    due: list[NodeAction] = [*_reopenings(rollout, automatic=rollout.may_claim and not decision.stalls)]
    if rollout.upgrade.status.accepted_spec_digest and rollout.may_claim:
        due += _claims(rollout)
    due += _hold_notes(rollout)
    due += _drops(rollout)
    return tuple(due[:WRITES_AT_ONCE])


def _hold_notes(rollout: RolloutView) -> Iterable[RecordHold]:
    """Return the notes on nodes that are found held by a pod for the first time."""
    for member in rollout.waiting:
        if member.reason is Reason.HELD_BY_POD and member.task is not None and member.task.held_since is None:
            yield RecordHold(task=member.task, reason=member.reason, message=member.message)


def _drops(rollout: RolloutView) -> Iterable[DropTask]:
    """Return the deletions of tasks whose Nodes are gone; a failure stays until a retry."""
    for task in sorted(rollout.stale, key=lambda task: task.name):
        if rollout.upgrade.retry_requested or not records_failure(task):
            message = f"node {task.name} does not exist any more"
            yield DropTask(task=task, reason=Reason.NODE_NOT_FOUND, message=message)


def release_all(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Return the releases of tasks that are claimed but whose run never began."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    return tuple(
        ReleaseTask(task=task, reason=Reason.CLAIMED, message=f"the claim on node {task.name} is released")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def clear_stale(rollout: RolloutView) -> tuple[ClearTaskStatus, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run."""
    tasks = (member.task for member in rollout.waiting if member.task is not None)
    waiting = (task for task in tasks if task.spec.action is TaskAction.WAIT)
    stale = (task for task in waiting if task.status.run_id not in {"", task.spec.run_id})
    return tuple(
        ClearTaskStatus(task=task, reason=Reason.CLAIMED, message=f"node {task.name} has not begun")
        for task in islice(stale, WRITES_AT_ONCE)
    )


def _claims(rollout: RolloutView) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(rollout.members)}
    for member in rollout.unclaimed[:WRITES_AT_ONCE]:
        if (node := member.view) is None or node.name in rollout.freed:
            continue
        if holder(rollout.fleet, node.name).other:
            continue
        held = rollout.fleet.tasks.get(node.name)
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        candidate = Candidate(fleet=rollout.fleet, spec=rollout.spec, node=node, now=rollout.now)
        spec = task_spec(candidate, wave=member.wave, order=order[node.name])
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


def _reopenings(rollout: RolloutView, *, automatic: bool) -> Iterable[Reopen]:
    """Reopen prechecked nodes once the action is Run, nodes to retry on request, and nodes to retry automatically.

    A reopened node waits for its turn like any other.
    """
    for member in rollout.waiting:
        if (task := member.task) is None or task.verdict is None:
            continue
        if (requested := rollout.reopening(member)) is not None:
            yield _reopen(rollout, task, *requested)
        elif automatic and member.again is not None and member.again <= rollout.now:
            yield _reopen(rollout, task, task.spec.retry, f"{task.verdict.reason} may have passed")


def _reopen(rollout: RolloutView, task: Task, retry: str, because: str) -> Reopen:
    spec = replace(
        task.spec,
        run_id=new_run_id(rollout.upgrade.uid, rollout.now),
        action=TaskAction.WAIT,
        action_reason="",
        action_message="",
        retry=retry,
        deadline=None,
        guard=GuardGrant(),
        verdict=None,
        history=past_runs(task, rollout.upgrade.status.last_handled_retry),
    )
    message = f"node {task.name} waits for its turn again: {because}"
    return Reopen(task=task, spec=spec, reason=Reason.REOPENED, message=message)


def completes_wave(rollout: RolloutView) -> bool:
    """Report whether freeing slots completes a wave, so that the next one to start nodes has not begun yet."""
    if not rollout.freed or rollout.spec.action is RolloutAction.PLAN:
        return False
    begun = {wave.name for wave in rollout.upgrade.status.waves if wave.started_at is not None}
    return not any(wave.name in begun for wave in rollout.waves[rollout.position.index :])


def admissions(rollout: RolloutView, ready: Sequence[NodeState], decision: StartDecision) -> tuple[Admit | Hold, ...]:
    """Return the admissions; if there is none although nodes are pending, why."""
    if ready or not decision.message:
        return tuple(_admit(rollout, member.view) for member in ready if member.view is not None)
    if not any(member.place in {Place.PENDING, Place.HELD} for member in rollout.members.values()):
        return ()
    return (Hold(reason=decision.reason, message=decision.message),)


def _admit(rollout: RolloutView, node: NodeView) -> Admit:
    facts = Candidate(fleet=rollout.fleet, spec=rollout.spec, node=node, now=rollout.now)
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(facts))
    purpose = "be examined for" if rollout.spec.action is RolloutAction.PLAN else f"go from {facts.current} to"
    message = f"node {node.name} takes a slot to {purpose} {facts.target}{notes}"
    return Admit(node=node.name, reason=Reason.ADMITTED, message=message)


def reject(
    fleet: FleetSnapshot, freed: Sequence[FreeSlot], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade, later = fleet.upgrade, without_slots(fleet, freed)
    if upgrade.finished:
        status = retry_refused(later.upgrade, objection, now) if upgrade.retry_requested else later.upgrade.status
        return (*freed, *accepted_events(upgrade.status, status), *reported(upgrade, status))
    status = rejected(fleet, later, objection, now)
    return (*freed, *impediment_events(upgrade.status, status), *reported(upgrade, status))


def leave(fleet: FleetSnapshot, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer; the tasks stay, and no longer hold their nodes once their runs are over."""
    if not fleet.upgrade.has_finalizer:
        return ()
    message = "the NodeUpgrade is abandoned" if abandoned else "no node is in flight any more"
    return (RemoveFinalizer(reason=Reason.DELETING, message=message),)


def ignore_retry(upgrade: Upgrade) -> tuple[NodeAction, ...]:
    """Return the actions that ignore a retry of an aborted rollout, and say so."""
    message = sentence(Reason.RETRY_IGNORED, f"retry {upgrade.retry} is ignored because the rollout was aborted")
    handled = replace(upgrade.status, last_handled_retry=upgrade.retry)
    return (
        WriteStatus(status=handled, reason=Reason.RETRY_IGNORED, message=upgrade.status.phase),
        Report(reason=Reason.RETRY_IGNORED, message=message, warning=True),
    )
