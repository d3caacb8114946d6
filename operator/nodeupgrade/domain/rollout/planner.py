"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout import claims
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
from nodeupgrade.domain.rollout.budgets import UNDECIDED, StartDecision, decide_start
from nodeupgrade.domain.rollout.candidate import Candidate
from nodeupgrade.domain.rollout.events import accepted_events, impediment_events, new_events, reported
from nodeupgrade.domain.rollout.failures import on_record
from nodeupgrade.domain.rollout.membership import NodeState, Place
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
    due = claims.prepare(rollout, decision)
    preparations = tuple(action for action in due if not fleet.is_held_back(action, now))
    blanks = tuple(action for action in claims.clear_stale(rollout) if not fleet.is_held_back(action, now))
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
    status = summarise(fleet, told, decision, reopened=rollout.is_retried or rollout.is_called_off)
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


def _reject(
    fleet: FleetSnapshot, freed: Sequence[FreeSlot], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade, told = fleet.upgrade, on_record(fleet, freed)
    if upgrade.finished:
        status = retry_refused(told.upgrade, objection, now) if upgrade.retry_asked else told.upgrade.status
        return (*freed, *accepted_events(upgrade, status), *reported(upgrade, status))
    status = rejected(fleet, told, objection, now)
    return (*freed, *impediment_events(upgrade.status, status), *reported(upgrade, status))


def _leave(fleet: FleetSnapshot, now: datetime, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer, after releasing the claims unless the object is abandoned.

    A claim whose release backs off does not delay it.
    """
    if not fleet.upgrade.has_finalizer:
        return ()
    releases = (each for each in claims.release_all(fleet) if not fleet.is_held_back(each, now))
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
