"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout import budgets, claims, conditions, gates
from nodeupgrade.domain.rollout.actions import (
    AddFinalizer,
    Admit,
    Claim,
    FreeSlot,
    Hold,
    NodeAction,
    RemoveFinalizer,
    Report,
    WriteStatus,
)
from nodeupgrade.domain.rollout.admission import accept, warnings
from nodeupgrade.domain.rollout.agent_lifecycle import ended_early, missing, overdue
from nodeupgrade.domain.rollout.backoff import held_back, impediments, is_held_back
from nodeupgrade.domain.rollout.budgets import UNDECIDED, StartDecision, queued
from nodeupgrade.domain.rollout.candidate import Candidate
from nodeupgrade.domain.rollout.events import accepted_events, impediment_events, new_events, reported, retry_events
from nodeupgrade.domain.rollout.failures import after_retry, record, with_record
from nodeupgrade.domain.rollout.membership import in_flight
from nodeupgrade.domain.rollout.node_state import NodeState, Place, known_reason
from nodeupgrade.domain.rollout.phase import state_of
from nodeupgrade.domain.rollout.rollout_view import RolloutView, view_members, view_rollout
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.upgrade_status import rejected, retry_refused, summarise


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
    upgrade, flying = fleet.upgrade, in_flight(fleet)
    if upgrade.deleting and (not flying or upgrade.abandoned):
        return Plan(actions=_leave(fleet, now, abandoned=bool(flying)))
    if upgrade.finished and not flying and not upgrade.retry_asked:
        return Plan()
    if upgrade.finished and upgrade.retry_asked and _was_aborted(upgrade):
        return Plan(actions=_ignore_retry(upgrade))
    freed = tuple(fleet.done[name] for name in flying if name in fleet.done)
    if isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        return Plan(actions=_reject(fleet, freed, spec, now))
    if not upgrade.has_finalizer and not upgrade.deleting:
        add = AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight")
        return Plan(actions=(add,))

    rollout = view(fleet, spec, now, freed)
    decision, preparations, backing_off = _next_starts(rollout)
    if upgrade.finished and (preparations or not upgrade.retry_asked):
        return Plan(actions=(*freed, *preparations, *reported(upgrade, rollout.upgrade.status)))

    # A node that is freed may be admitted again by a later plan, which has read that it was; and the end of a wave is
    # put on record before the next one begins.
    wave_ends = _wave_ends(rollout)
    starts = () if wave_ends else tuple(member for member in decision.nodes if member.node not in fleet.done)
    ready = [member for member in starts if member.node in fleet.pods]
    entries = () if wave_ends else _entries(rollout, ready, decision)

    admitted = {member.node: replace(member, place=Place.IN_FLIGHT) for member in ready}
    told = view_members(rollout.fleet, spec, now, {**rollout.members, **admitted})
    late = (*ended_early(told.fleet), *overdue(told.fleet, now))
    status = summarise(
        told,
        state_of(told, decision),
        before=upgrade.status,
        reopened=claims.is_carried_out(rollout) or claims.is_void(rollout),
        impeded_by=_impeded_by(fleet, late, backing_off),
        missing=missing(fleet, told.flying, now),
    )
    events = (
        *new_events(told, upgrade.status, status),
        *impediment_events(upgrade.status, status),
        *retry_events(upgrade, status),
    )
    blanks = held_back(claims.clear_stale(rollout), fleet.setbacks, now)
    actions = (*freed, *preparations, *blanks, *entries, *events, *reported(upgrade, status, events))
    return Plan(actions=actions, unread=tuple(member.node for member in starts if member not in ready))


def view(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: Sequence[FreeSlot] = ()) -> RolloutView:
    """Return the rollout as it will be once these slots are free, with the failures that its status is about to keep.

    A retry that can be carried out clears them.
    """
    after, names = _freeing(fleet, freed), frozenset(action.node for action in freed)
    rollout = view_rollout(after, spec, now, names)
    if fleet.upgrade.retry_asked and claims.is_carried_out(rollout):
        return view_rollout(with_record(after, after_retry(after)), spec, now, names)
    return rollout


def _freeing(fleet: FleetSnapshot, freed: Sequence[FreeSlot]) -> FleetSnapshot:
    """Return the input as if these slots were free, and the failures of their nodes on record."""
    names = {action.node for action in freed}
    lost = [action.failure for action in freed if action.failure is not None]
    slots = tuple(name for name in in_flight(fleet) if name not in names)
    fleet = with_record(fleet, record(fleet, names, lost))
    return replace(fleet, upgrade=replace(fleet.upgrade, status=replace(fleet.upgrade.status, in_flight=slots)))


def _next_starts(
    rollout: RolloutView,
) -> tuple[StartDecision, tuple[NodeAction, ...], tuple[NodeAction, ...]]:
    """Return which nodes may start, the writes to waiting tasks that come before, and those of them that back off."""
    fleet = rollout.fleet
    if fleet.upgrade.finished and not fleet.upgrade.retry_asked:
        return UNDECIDED, (), ()
    behind = queued(fleet, rollout.spec)
    decision = behind or decide_start(rollout)
    due = claims.prepare(rollout, stalled=decision.stalls) if behind is None else claims.release_all(fleet)
    waiting = tuple(action for action in due if is_held_back(action, fleet.setbacks, rollout.now))
    preparations = tuple(action for action in due if action not in waiting)
    return behind or _prepared(rollout, decision, preparations, waiting), preparations, waiting


def decide_start(rollout: RolloutView) -> StartDecision:
    """Return the nodes that may be started now, or why none may: because of a gate that is closed, or of a budget."""
    planning = rollout.spec.action is RolloutAction.PLAN
    if rollout.held and not rollout.planned:
        reason = Reason.QUEUED if rollout.spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
        return StartDecision(reason=reason, message=rollout.held[0].message)
    for gate in gates.PRECHECK_GATES if planning else gates.GATES:
        if (closed := gate(rollout)) is not None:
            return StartDecision(reason=closed.reason, message=closed.message)
    decision = StartDecision(nodes=rollout.position.pending)
    for budget in budgets.PRECHECK_BUDGETS if planning else budgets.BUDGETS:
        if decision.nodes:
            decision = budget(rollout, decision.nodes)
    return StartDecision(nodes=decision.nodes) if decision.nodes else decision


def _prepared(
    rollout: RolloutView,
    decision: StartDecision,
    preparations: Iterable[NodeAction],
    backing_off: Sequence[NodeAction],
) -> StartDecision:
    """Limit a decision to nodes that are prepared.

    Nodes are claimed in the order in which they are upgraded, so the first ones need not wait until the whole fleet is
    claimed; unless claims are refused, since then it is not known who takes part.
    """
    others = any(not isinstance(action, Claim) for action in preparations)
    if rollout.upgrade.finished or others or (backing_off and not rollout.planned):
        return UNDECIDED
    if not rollout.unclaimed or not claims.may_claim(rollout):
        return decision
    if claimed := tuple(takewhile(lambda member: member.task is not None, decision.nodes)):
        return StartDecision(nodes=claimed)
    return UNDECIDED


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


def _impeded_by(
    fleet: FleetSnapshot, late: Iterable[Finding], held_back: Iterable[NodeAction] = ()
) -> tuple[Finding, ...]:
    """Return what keeps nodes from making progress; until all in flight have been looked at, also what did before."""
    flying = in_flight(fleet)
    waits = [fleet.waiting[name] for name in flying if name in fleet.waiting]
    found = impediments((*waits, *held_back), fleet.setbacks, late)
    before = conditions.find(fleet.upgrade.status, ConditionType.IMPEDED)
    if found or len(waits) == len(flying) or before.status is not ConditionStatus.TRUE:
        return found
    return (Finding(reason=known_reason(before.reason), detail=before.message, remedy=""),)


def _reject(
    fleet: FleetSnapshot, freed: Sequence[FreeSlot], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade, told = fleet.upgrade, _freeing(fleet, freed)
    if upgrade.finished:
        status = retry_refused(told.upgrade, objection, now) if upgrade.retry_asked else told.upgrade.status
        return (*freed, *accepted_events(upgrade, status), *reported(upgrade, status))
    impeded_by = _impeded_by(fleet, overdue(told, now))
    status = rejected(told.upgrade, objection, now, impeded_by=impeded_by)
    status = replace(status, missing=missing(fleet, status.in_flight, now))
    return (*freed, *impediment_events(upgrade.status, status), *reported(upgrade, status))


def _leave(fleet: FleetSnapshot, now: datetime, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer, after releasing the claims unless the object is abandoned.

    A claim whose release backs off does not delay it.
    """
    if not fleet.upgrade.has_finalizer:
        return ()
    releases = (each for each in claims.release_all(fleet) if not is_held_back(each, fleet.setbacks, now))
    if not abandoned and (due := tuple(releases)):
        return due
    message = "the NodeUpgrade is abandoned" if abandoned else "no node is in flight any more"
    return (RemoveFinalizer(reason=Reason.DELETING, message=message),)


def _was_aborted(upgrade: Upgrade) -> bool:
    return conditions.find(upgrade.status, ConditionType.SUCCEEDED).reason == Reason.ABORTED


def _ignore_retry(upgrade: Upgrade) -> tuple[NodeAction, ...]:
    message = sentence(Reason.RETRY_IGNORED, f"retry {upgrade.retry} is ignored because the rollout was aborted")
    handled = replace(upgrade.status, last_handled_retry=upgrade.retry)
    return (
        WriteStatus(status=handled, reason=Reason.RETRY_IGNORED, message=upgrade.status.phase),
        Report(reason=Reason.RETRY_IGNORED, message=message, warning=True),
    )
