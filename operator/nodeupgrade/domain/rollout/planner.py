"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout import claims, conditions, retry
from nodeupgrade.domain.rollout.actions import (
    AddFinalizer,
    Admit,
    FreeSlot,
    NodeAction,
    RemoveFinalizer,
    Report,
    WriteStatus,
)
from nodeupgrade.domain.rollout.admission import accept
from nodeupgrade.domain.rollout.agent_lifecycle import ended_early, missing, overdue
from nodeupgrade.domain.rollout.backoff import held_back, impediments, is_held_back
from nodeupgrade.domain.rollout.events import accepted_events, impediment_events, new_events, reported, retry_events
from nodeupgrade.domain.rollout.failures import record, with_record
from nodeupgrade.domain.rollout.intent import Intent, intend
from nodeupgrade.domain.rollout.membership import in_flight
from nodeupgrade.domain.rollout.node_state import known_reason
from nodeupgrade.domain.rollout.phase import state_of
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
    if isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        return Plan(actions=_reject(fleet, flying, spec, now))
    if not upgrade.has_finalizer and not upgrade.deleting:
        add = AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight")
        return Plan(actions=(add,))
    return _proceed(fleet, spec, now)


def _proceed(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> Plan:
    """Free the slots that are not needed any more, prepare and admit the next nodes, and update the status."""
    upgrade, told = fleet.upgrade, with_record(fleet, record(fleet))
    intent = intend(told, spec, now)
    freed = _freed(fleet, intent.rollout.flying)
    after = intent if upgrade.finished else _settled(intent, freed, now)
    same_wave = after.position.index == intent.position.index  # else the end of the wave is put on record first
    admitting = after if same_wave else intent
    # A node that is freed may be admitted again by a later plan, which has read that it was.
    done = fleet.done
    entries = tuple(each for each in admitting.admissions if not isinstance(each, Admit) or each.node not in done)
    settled = _settled(admitting, freed, now, [each.node for each in entries if isinstance(each, Admit)])
    if upgrade.finished and (intent.preparations or not upgrade.retry_asked):
        own = reported(upgrade, settled.rollout.upgrade.status)
        return Plan(actions=(*freed, *intent.preparations, *own))

    state = state_of(settled.rollout, settled.decision)
    reopened = retry.is_carried_out(intent.rollout, now) or retry.is_void(intent.rollout)
    status = summarise(
        settled.rollout,
        settled.position,
        state,
        now,
        before=upgrade.status,
        reopened=reopened,
        impeded_by=_impeded_by(
            fleet, (*ended_early(settled.rollout.fleet), *overdue(settled.rollout.fleet, now)), intent.held_back
        ),
    )
    status = replace(status, missing=missing(fleet, settled.rollout.flying, now))
    events = (
        *new_events(settled.rollout, upgrade.status, status),
        *impediment_events(upgrade.status, status),
        *retry_events(upgrade, status),
    )
    blanks = held_back(claims.clear_stale(intent.rollout), fleet.setbacks, now)
    actions = (*freed, *intent.preparations, *blanks, *entries, *events, *reported(upgrade, status, events))
    return Plan(actions=actions, unread=admitting.unread)


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


def _freed(fleet: FleetSnapshot, flying: tuple[NodeName, ...]) -> tuple[FreeSlot, ...]:
    done = fleet.done
    return tuple(done[name] for name in flying if name in done)


def _settled(intent: Intent, freed: tuple[FreeSlot, ...], now: datetime, admitted: Iterable[NodeName] = ()) -> Intent:
    """Return the intent as it will be once the status names who is in flight, and who has failed."""
    fleet, flying = intent.rollout.fleet, intent.rollout.flying
    slots = _slots(flying, freed, admitted)
    return intent if slots == flying else intend(_with_slots(fleet, slots, freed), intent.rollout.spec, now)


def _with_slots(fleet: FleetSnapshot, slots: tuple[NodeName, ...], freed: tuple[FreeSlot, ...]) -> FleetSnapshot:
    """Return the input as if these nodes were in flight, and the failures of those that are freed on record."""
    ended = frozenset(in_flight(fleet)) - {*slots}
    lost = [action.failure for action in freed if action.failure is not None and action.node in ended]
    fleet = with_record(fleet, record(fleet, ended, lost))
    return replace(fleet, upgrade=replace(fleet.upgrade, status=replace(fleet.upgrade.status, in_flight=slots)))


def _slots(
    flying: tuple[NodeName, ...], freed: tuple[FreeSlot, ...], admitted: Iterable[NodeName] = ()
) -> tuple[NodeName, ...]:
    return tuple(sorted({*flying, *admitted} - {action.node for action in freed}))


def _reject(
    fleet: FleetSnapshot, flying: tuple[NodeName, ...], objection: Finding, now: datetime
) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why."""
    upgrade, freed = fleet.upgrade, _freed(fleet, flying)
    slots = _slots(flying, freed)
    told = _with_slots(fleet, slots, freed)
    if upgrade.finished:
        status = retry_refused(told.upgrade, objection, now) if upgrade.retry_asked else told.upgrade.status
        return (*freed, *accepted_events(upgrade, status), *reported(upgrade, status))
    impeded_by = _impeded_by(fleet, overdue(told, now))
    status = replace(
        rejected(told.upgrade, objection, slots, now, impeded_by=impeded_by), missing=missing(fleet, slots, now)
    )
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
