"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, takewhile

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, RunKind, TaskAction, new_run_id
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.api.wording import sentence
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.actions import (
    AddFinalizer,
    Admit,
    Blank,
    Claim,
    DropTask,
    FreeSlot,
    Hold,
    NodeAction,
    NoteHold,
    Release,
    RemoveFinalizer,
    Reopen,
    Report,
    WriteStatus,
)
from nodeupgrade.domain.rollout.admission import accept, warnings
from nodeupgrade.domain.rollout.budgets import UNDECIDED, StartDecision, decide_start
from nodeupgrade.domain.rollout.candidate import Candidate, is_claimable, past_runs, task_spec
from nodeupgrade.domain.rollout.counting import tally
from nodeupgrade.domain.rollout.events import accepted_events, impediment_events, new_events, reported
from nodeupgrade.domain.rollout.failures import on_record
from nodeupgrade.domain.rollout.membership import view_members, view_rollout
from nodeupgrade.domain.rollout.node_state import NodeState, Place
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.upgrade_status import rejected, retry_refused, summarise

WRITES_AT_ONCE = 250
"""How many claims, releases and the like a plan has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next with a rollout."""

    actions: tuple[NodeAction, ...] = ()  # all that can be done now, in order
    unread: tuple[NodeName, ...] = ()  # nodes that could be admitted if their pods were read; plan again with them


def plan(fleet: FleetSnapshot, now: datetime) -> Plan:
    """Decide what to do next with a rollout: slots are freed first, then come claims, admissions and the status.

    The status write of one plan admits a node; only then is it touched, by ``flight.advance``. Without a recorded slot
    nothing happens to a node. A slot that a plan frees is taken by the same write if another node of the same wave may
    start.
    """
    upgrade, flying = fleet.upgrade, fleet.in_flight
    if upgrade.deleting and (not flying or upgrade.abandoned):
        return Plan(actions=_leave(fleet, now, abandoned=bool(flying)))
    if upgrade.finished and not flying and not upgrade.retry_asked:
        return Plan()
    aborted = upgrade.status.condition(ConditionType.SUCCEEDED).reason == Reason.ABORTED
    if upgrade.finished and upgrade.retry_asked and aborted:
        return Plan(actions=_ignore_retry(upgrade))
    done = fleet.done
    freed = tuple(done[name] for name in flying if name in done)
    if isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        return Plan(actions=_reject(fleet, freed, spec, now))
    if not upgrade.has_finalizer and not upgrade.deleting:
        add = AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight")
        return Plan(actions=(add,))

    rollout = view_rollout(fleet, spec, now, freed)
    decision = decide_start(rollout)
    due = prepare(rollout, decision)
    preparations = tuple(action for action in due if not fleet.is_held_back(action, now))
    blanks = tuple(action for action in clear_stale(rollout) if not fleet.is_held_back(action, now))
    if upgrade.finished and (preparations or not upgrade.retry_asked):
        return Plan(actions=(*freed, *preparations, *reported(upgrade, rollout.upgrade.status)))

    decision, wave_ends = _prepared(rollout, decision, preparations, due), _wave_ends(rollout)
    # The end of a wave is put on record before the next one begins. A node that is freed may be admitted again by a
    # later plan, which has read that it was.
    chosen = [] if wave_ends else [member for member in decision.nodes if member.node not in done]
    ready = [member for member in chosen if member.node in fleet.pods]
    entries = () if wave_ends else _entries(rollout, ready, decision)

    admitted = {member.node: replace(member, place=Place.IN_FLIGHT) for member in ready}
    told = view_members(rollout.fleet, spec, now, {**rollout.members, **admitted})
    reopened = rollout.is_retried or rollout.is_called_off
    status = summarise(fleet, told, tally(told), decision, reopened=reopened)
    events = new_events(told, upgrade.status, status)
    actions = (*freed, *preparations, *blanks, *entries, *events, *reported(upgrade, status, events))
    return Plan(actions=actions, unread=tuple(member.node for member in chosen if member.node not in fleet.pods))


def _prepared(
    rollout: RolloutView,
    decision: StartDecision,
    preparations: Sequence[NodeAction],
    due: Sequence[NodeAction],
) -> StartDecision:
    """Limit a decision to nodes that are prepared.

    Nodes are claimed in the order in which they are upgraded, so the first ones need not wait until the whole fleet is
    claimed; unless claims are refused, since then it is not known who takes part.
    """
    if decision.behind:
        return decision
    others = any(not isinstance(action, Claim) for action in preparations)
    backing_off = len(preparations) < len(due)
    if rollout.upgrade.finished or others or (backing_off and not rollout.planned):
        return UNDECIDED
    if not rollout.unclaimed or not rollout.may_claim:
        return decision
    if claimed := tuple(takewhile(lambda member: member.task is not None, decision.nodes)):
        return StartDecision(nodes=claimed)
    return UNDECIDED


# The writes by which a rollout claims and releases its nodes: they concern only tasks of nodes without a slot.


def prepare(rollout: RolloutView, decision: StartDecision) -> tuple[NodeAction, ...]:
    """Return the writes that must precede the start of any node; none if everything is prepared.

    A rollout that waits for an older one gives back its claims. Nothing is retried automatically as long as a person
    is needed before the rollout continues.
    """
    if rollout.upgrade.finished and not rollout.upgrade.retry_asked:
        return ()
    if decision.behind:
        return release_all(rollout.fleet)
    if rollout.is_called_off:
        return ()
    due: list[NodeAction] = [*_reopened(rollout, by_itself=rollout.may_claim and not decision.stalls)]
    if rollout.upgrade.status.accepted_spec_digest and rollout.may_claim:
        due += _claimed(rollout)
    due += _held(rollout)
    return tuple(due[:WRITES_AT_ONCE])


def _held(rollout: RolloutView) -> Iterable[NoteHold]:
    """Return the notes on nodes that are found held by a pod for the first time."""
    for member in rollout.waiting:
        if member.reason is Reason.HELD_BY_POD and member.task is not None and member.task.held_since is None:
            yield NoteHold(task=member.task, reason=member.reason, message=member.message)


def release_all(fleet: FleetSnapshot) -> tuple[NodeAction, ...]:
    """Return the releases of tasks that are claimed but whose run never began."""
    own = (task for name, task in sorted(fleet.tasks.items()) if fleet.own_task(name) is not None)
    held = (task for task in own if not task.open and task.spec.action is not TaskAction.RELEASE)
    idle = (task for task in held if task.spec.action is TaskAction.WAIT or task.kind is RunKind.PRECHECK)
    return tuple(
        Release(task=task, reason=Reason.CLAIMED, message=f"node {task.name}: the claim is given back")
        for task in islice(idle, WRITES_AT_ONCE)
    )


def clear_stale(rollout: RolloutView) -> tuple[Blank, ...]:
    """Return the writes that clear the status of waiting tasks which still describes an earlier run."""
    stale = (
        task
        for task in (member.task for member in rollout.waiting)
        if task is not None and task.spec.action is TaskAction.WAIT and task.status.run_id not in {"", task.spec.run_id}
    )
    return tuple(
        Blank(task=task, reason=Reason.CLAIMED, message=f"node {task.name} has not begun")
        for task in islice(stale, WRITES_AT_ONCE)
    )


def _claimed(rollout: RolloutView) -> Iterable[NodeAction]:
    order = {name: index for index, name in enumerate(rollout.members)}
    for member in rollout.unclaimed[:WRITES_AT_ONCE]:
        if (node := member.view) is None or node.name in rollout.freed:
            continue
        held = rollout.fleet.tasks.get(node.name)
        if held is not None and held.spec.node_uid != node.uid:
            message = f"node {node.name} was replaced by another one of the same name"
            yield DropTask(task=held, reason=Reason.NODE_NOT_FOUND, message=message)
            continue
        if (
            held is not None
            and held.spec.upgrade_ref.uid != rollout.upgrade.uid
            and not is_claimable(held, rollout.fleet.active_upgrades)
        ):
            continue
        message = f"node {node.name} belongs to {f'wave {member.wave}' if rollout.spec.waves else 'the rollout'}"
        candidate = Candidate(fleet=rollout.fleet, spec=rollout.spec, node=node, now=rollout.now)
        spec = task_spec(candidate, wave=member.wave, order=order[node.name])
        yield Claim(node=node.name, spec=spec, claims=held, reason=Reason.CLAIMED, message=message)


def _reopened(rollout: RolloutView, *, by_itself: bool) -> Iterable[Reopen]:
    """Reopen prechecked nodes once the action is Run, nodes to retry on request, and nodes to retry automatically.

    A reopened node waits for its turn like any other.
    """
    for member in rollout.waiting:
        if (task := member.task) is None or task.verdict is None:
            continue
        if (asked := rollout.reopening(member)) is not None:
            yield _reopen(rollout, task, *asked)
        elif by_itself and member.again is not None and member.again <= rollout.now:
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
        history=past_runs(task),
    )
    message = f"node {task.name} waits for its turn again: {because}"
    return Reopen(task=task, spec=spec, reason=Reason.REOPENED, message=message)


def _wave_ends(rollout: RolloutView) -> bool:
    """Report whether a slot was freed with which a wave is over, so that a wave has its turn that has not begun."""
    if not rollout.freed or rollout.spec.action is RolloutAction.PLAN:
        return False
    begun = {wave.name for wave in rollout.upgrade.status.waves if wave.started_at is not None}
    return not any(wave.name in begun for wave in rollout.waves[rollout.position.index :])


def _entries(rollout: RolloutView, ready: Sequence[NodeState], decision: StartDecision) -> tuple[Admit | Hold, ...]:
    """Return the admissions; if there is none, but some nodes are pending, the reason."""
    if ready or not decision.message:
        return tuple(_admit(rollout, member.view) for member in ready if member.view is not None)
    if not any(member.place in {Place.PENDING, Place.HELD} for member in rollout.members.values()):
        return ()
    return (Hold(reason=decision.reason, message=decision.message),)


def _admit(rollout: RolloutView, node: NodeView) -> Admit:
    facts = Candidate(fleet=rollout.fleet, spec=rollout.spec, node=node, now=rollout.now)
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(facts))
    purpose = "be looked at for" if rollout.spec.action is RolloutAction.PLAN else f"go from {facts.current} to"
    message = f"node {node.name} takes a slot to {purpose} {facts.target}{notes}"
    return Admit(node=node.name, reason=Reason.ADMITTED, message=message)


def _reject(
    fleet: FleetSnapshot, freed: Sequence[FreeSlot], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade, told = fleet.upgrade, on_record(fleet, freed)
    if upgrade.finished:
        status = retry_refused(told.upgrade, objection, now) if upgrade.retry_asked else told.upgrade.status
        return (*freed, *accepted_events(upgrade.status, status), *reported(upgrade, status))
    status = rejected(fleet, told, objection, now)
    return (*freed, *impediment_events(upgrade.status, status), *reported(upgrade, status))


def _leave(fleet: FleetSnapshot, now: datetime, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer, after releasing the claims unless the object is abandoned.

    A claim whose release backs off does not delay it.
    """
    if not fleet.upgrade.has_finalizer:
        return ()
    releases = (each for each in release_all(fleet) if not fleet.is_held_back(each, now))
    if not abandoned and (due := tuple(releases)):
        return due
    message = "the NodeUpgrade is abandoned" if abandoned else "no node is in flight any more"
    return (RemoveFinalizer(reason=Reason.DELETING, message=message),)


def _ignore_retry(upgrade: Upgrade) -> tuple[NodeAction, ...]:
    message = sentence(Reason.RETRY_IGNORED, f"retry {upgrade.retry} is ignored because the rollout was aborted")
    handled = replace(upgrade.status, last_handled_retry=upgrade.retry)
    return (
        WriteStatus(status=handled, reason=Reason.RETRY_IGNORED, message=upgrade.status.phase),
        Report(reason=Reason.RETRY_IGNORED, message=message, warning=True),
    )
