"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout import claims, conditions, retry
from nodeupgrade.domain.rollout.actions import (
    AddFinalizer,
    Admit,
    FreeSlot,
    Hold,
    NodeAction,
    RemoveFinalizer,
    Report,
    WriteStatus,
)
from nodeupgrade.domain.rollout.admission import accept
from nodeupgrade.domain.rollout.agent_lifecycle import ended_early, missing, overdue
from nodeupgrade.domain.rollout.backoff import held_back, impediments, is_held_back, up_to_held_back
from nodeupgrade.domain.rollout.events import accepted_events, impediment_events, new_events, reported, retry_events
from nodeupgrade.domain.rollout.failures import record, with_record
from nodeupgrade.domain.rollout.flight import Terms, advance, needs_pods
from nodeupgrade.domain.rollout.intent import Intent, intend
from nodeupgrade.domain.rollout.membership import in_flight
from nodeupgrade.domain.rollout.phase import state_of
from nodeupgrade.domain.rollout.recall import Recall
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.upgrade_status import rejected, retry_refused, summarise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """What a plan does with the nodes in flight, and which others it starts.

    Attributes:
        fleet: the input.
        intent: what to do with the others as long as all slots are taken.
        advances: the next actions for nodes in flight.
        kept: the nodes that keep their slots.
        admitting: the intent whose nodes are admitted: that with the slots that are free after this plan.
    """

    fleet: FleetSnapshot
    intent: Intent
    advances: tuple[NodeAction, ...]
    kept: tuple[NodeName, ...]
    admitting: Intent


@dataclass(slots=True)
class Notes:
    """What the planner has found about one rollout; with them it is quicker, and comes to the same plans."""

    recall: Recall = field(default_factory=Recall)
    _decided: _Decided | None = None

    def decide(self, fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> _Decided:
        """Decide, unless the last decision was about the same snapshot at the same time."""
        known = self._decided
        if known is None or known.fleet is not fleet or known.intent.rollout.now != now:
            known = self._decided = _decide(fleet, spec, now, self.recall)
        return known


def plan(fleet: FleetSnapshot, now: datetime, notes: Notes | None = None) -> tuple[NodeAction, ...]:
    """Return all actions that can be taken now, in order; ``notes`` make it quicker, and change nothing else.

    Nodes in flight come first, then claims, admissions and the status. The status write of one plan admits a node; only
    a later plan, which has read that status, touches it. Without a recorded slot nothing happens to a node. A slot that
    a plan frees is taken by the same write if another node of the same wave may start.
    """
    upgrade, flying = fleet.upgrade, in_flight(fleet)
    if upgrade.deleting and (not flying or upgrade.abandon == upgrade.uid):
        return _leave(fleet, now, abandoned=bool(flying))
    if upgrade.finished and not flying and not upgrade.retry_asked:
        return ()
    if upgrade.finished and upgrade.retry_asked and _was_aborted(upgrade):
        return _ignore_retry(upgrade)
    if isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        return _reject(fleet, flying, spec, now)
    if not upgrade.has_finalizer and not upgrade.deleting:
        return (AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight"),)
    return _proceed(fleet, spec, now, notes or Notes())


def advance_in_flight(
    fleet: FleetSnapshot, now: datetime, only: Collection[NodeName] | None = None
) -> tuple[NodeAction, ...]:
    """Return what ``plan`` would do next with the nodes that hold a slot, as far as no other node matters to it.

    It costs what is in flight, whatever the size of the fleet. Slots are freed and taken by ``plan`` alone. ``only``
    these nodes are advanced, if given.
    """
    if (spec := _terms_of_advance(fleet, now)) is None:
        return ()
    flying = tuple(name for name in _advancing(fleet) if only is None or name in only)
    waves = {name: task.spec.wave for name in flying if (task := fleet.tasks.get(name)) is not None}
    return _advances(fleet, Terms(spec=spec, waves=waves), flying, now)


def unread_in_flight(fleet: FleetSnapshot, now: datetime) -> tuple[NodeName, ...]:
    """Return the nodes whose pods must be read before ``advance_in_flight``."""
    if _terms_of_advance(fleet, now) is None:
        return ()
    return tuple(name for name in _advancing(fleet) if name not in fleet.pods and needs_pods(fleet, name, now))


def _terms_of_advance(fleet: FleetSnapshot, now: datetime) -> UpgradeSpec | None:
    """Return the spec by which nodes in flight advance; None if only ``plan`` can tell what becomes of them."""
    upgrade = fleet.upgrade
    if not upgrade.has_finalizer or (upgrade.deleting and upgrade.abandon == upgrade.uid):
        return None
    spec = accept(upgrade, now, fleet.allowed)
    return None if isinstance(spec, Finding) else spec


def _advancing(fleet: FleetSnapshot) -> tuple[NodeName, ...]:
    """Return the nodes that hold a slot and have their task; without one, a node depends on the rollout as a whole."""
    return tuple(name for name in fleet.upgrade.status.in_flight if fleet.own_task(name) is not None)


def unread(
    fleet: FleetSnapshot, now: datetime, notes: Notes | None = None, besides: Collection[NodeName] = ()
) -> tuple[NodeName, ...]:
    """Return the nodes whose pods must be read before planning; call again after reading them.

    Nodes in flight come first: which others may start depends on whether those keep their slots. Those ``besides`` are
    read for ``advance_in_flight``; until then, they keep theirs.
    """
    upgrade = fleet.upgrade
    flying = (name for name in in_flight(fleet) if name in fleet.nodes and name not in fleet.pods)
    if wanted := tuple(name for name in flying if name not in besides and needs_pods(fleet, name, now)):
        return wanted
    if not upgrade.has_finalizer or isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        return ()
    return (notes or Notes()).decide(fleet, spec, now).admitting.unread


def _proceed(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, notes: Notes) -> tuple[NodeAction, ...]:
    """Advance nodes in flight, prepare and admit the next ones, and update the status."""
    upgrade, decided = fleet.upgrade, notes.decide(fleet, spec, now)
    intent, advances, entries = decided.intent, decided.advances, decided.admitting.admissions
    slots = tuple(sorted({*decided.kept, *(action.node for action in entries if isinstance(action, Admit))}))
    settled = _with_slots(decided.admitting, slots, advances, now, notes.recall)
    if upgrade.finished and (intent.preparations or not upgrade.retry_asked):
        return (*advances, *intent.preparations, *reported(upgrade, settled.rollout.upgrade.status))

    state = state_of(settled.rollout, settled.decision)
    reopened = retry.is_carried_out(intent.rollout, now) or retry.is_void(intent.rollout)
    late = (*ended_early(settled.rollout.fleet), *overdue(settled.rollout.fleet, now))
    impeded_by = impediments((*advances, *intent.held_back), fleet.setbacks, late)
    status = summarise(
        settled.rollout, settled.position, state, now, before=upgrade.status, reopened=reopened, impeded_by=impeded_by
    )
    status = replace(status, missing=missing(fleet, slots, now))
    events = (
        *new_events(settled.rollout, upgrade.status, status),
        *impediment_events(upgrade.status, status),
        *retry_events(upgrade, status),
    )
    blanks = held_back(claims.clear_stale(intent.rollout), fleet.setbacks, now)
    return (*advances, *intent.preparations, *blanks, *entries, *events, *reported(upgrade, status, events))


def _advances(
    fleet: FleetSnapshot, terms: Terms | None, flying: tuple[NodeName, ...], now: datetime
) -> tuple[NodeAction, ...]:
    by_node = (up_to_held_back(advance(fleet, terms, name, now), fleet.setbacks, now) for name in flying)
    return tuple(chain.from_iterable(by_node))


def _decide(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, recall: Recall) -> _Decided:
    """Advance the nodes in flight, and see who may start with the slots that are free then."""
    told = with_record(fleet, record(fleet))
    intent = intend(told, spec, now, recall)
    flying, members = intent.rollout.flying, intent.rollout.members
    terms = Terms(spec=spec, waves={name: members[name].wave for name in flying})
    advances = _advances(fleet, terms, flying, now)
    kept = _slots(flying, advances)
    after = intent if fleet.upgrade.finished else _with_slots(intent, kept, advances, now, recall)
    same_wave = after.position.index == intent.position.index  # else the end of the wave is put on record first
    return _Decided(fleet=fleet, intent=intent, advances=advances, kept=kept, admitting=after if same_wave else intent)


def _with_slots(
    intent: Intent, slots: tuple[NodeName, ...], advances: tuple[NodeAction, ...], now: datetime, recall: Recall
) -> Intent:
    """Return the intent as it will be once the status names these nodes as being in flight, and who has failed."""
    fleet = intent.rollout.fleet
    if slots == intent.rollout.flying:
        return intent
    return intend(_freed(fleet, slots, advances), intent.rollout.spec, now, recall)


def _freed(fleet: FleetSnapshot, slots: tuple[NodeName, ...], advances: tuple[NodeAction, ...]) -> FleetSnapshot:
    """Return the input as if only these nodes were in flight, and the failures of the others on record."""
    freed = frozenset(in_flight(fleet)) - {*slots}
    lost = [
        action.failure
        for action in advances
        if isinstance(action, FreeSlot) and action.failure is not None and action.node in freed
    ]
    fleet = with_record(fleet, record(fleet, freed, lost))
    return replace(fleet, upgrade=replace(fleet.upgrade, status=replace(fleet.upgrade.status, in_flight=slots)))


def _slots(flying: tuple[NodeName, ...], advances: tuple[NodeAction, ...]) -> tuple[NodeName, ...]:
    freed = {action.node for action in advances if isinstance(action, FreeSlot)}
    return tuple(name for name in flying if name not in freed)


def _reject(
    fleet: FleetSnapshot, flying: tuple[NodeName, ...], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade = fleet.upgrade
    advances = _advances(fleet, None, flying, now)
    slots = _slots(flying, advances)
    told = _freed(fleet, slots, advances)
    if upgrade.finished:
        status = retry_refused(told.upgrade, objection, now) if upgrade.retry_asked else told.upgrade.status
        return (*advances, *accepted_events(upgrade, status), *reported(upgrade, status))
    impeded_by = impediments(advances, fleet.setbacks, overdue(told, now))
    status = replace(
        rejected(told.upgrade, objection, slots, now, impeded_by=impeded_by), missing=missing(fleet, slots, now)
    )
    return (*advances, *impediment_events(upgrade.status, status), *reported(upgrade, status))


def _leave(fleet: FleetSnapshot, now: datetime, *, abandoned: bool) -> tuple[NodeAction, ...]:
    """Remove the finalizer, after releasing the claims unless the object is abandoned.

    A claim whose release backs off does not delay it.
    """
    if not fleet.upgrade.has_finalizer:
        return ()
    releases = (each for each in claims.release_all(fleet) if not is_held_back(each, fleet.setbacks, now))
    if not abandoned and (due := tuple(releases)):
        return due
    if not abandoned and fleet.busy:
        return (Hold(reason=Reason.DELETING, message="writes that were begun before have not been answered yet"),)
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
