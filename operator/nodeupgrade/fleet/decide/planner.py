"""The rollout planner: decides what to do next with a fleet, and why. Stateless and deterministic."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import AddFinalizer, NodeAction
from nodeupgrade.fleet.decide.admission import accept
from nodeupgrade.fleet.decide.budgets import decide_start
from nodeupgrade.fleet.decide.claims import (
    admissions,
    clear_stale,
    ignore_retry,
    leave,
    limit_to_prepared,
    prepare,
    release_strays,
)
from nodeupgrade.fleet.decide.ledger import ledger_of
from nodeupgrade.fleet.decide.membership import add_pods, view_rollout
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.upgrade_status import new_events, observed, reject, reported, summarise
from nodeupgrade.fleet.snapshot import FleetSnapshot

READ_AHEAD = 64
"""Nodes whose pods are read at once after those of others have objected: most often they all have the same pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next with a rollout."""

    actions: tuple[NodeAction, ...] = ()  # all that can be done now, in order
    unread: tuple[NodeName, ...] = ()  # nodes that could be admitted if their pods were read; plan again with them
    rollout: RolloutView | None = field(default=None, repr=False, compare=False)  # what it was decided from


def plan(fleet: FleetSnapshot, now: datetime, seen: RolloutView | None = None) -> Plan:
    """Decide what to do next with a rollout: slots are freed first, then come claims, admissions and the status.

    The status write admits a node, and only then does ``flight.advance`` touch it. The write that frees a slot also
    gives it to another node of the same wave that may start. If only pods were read since an earlier plan of this
    snapshot and moment, ``seen`` is what that was decided from: then only the nodes of these pods are judged again.
    """
    upgrade, slots = fleet.upgrade, fleet.slots
    if upgrade.deleting and (not slots or upgrade.abandoned):
        return Plan(actions=leave(upgrade, abandoned=bool(slots)))
    if upgrade.finished and not slots and not upgrade.retry_requested:
        return Plan(actions=reported(upgrade.status, observed(upgrade, now)))
    if upgrade.finished and upgrade.retry_requested and upgrade.status.aborted:
        return Plan(actions=ignore_retry(upgrade))
    done = fleet.done
    freed = tuple(done[name] for name in slots if name in done)
    if isinstance(spec := accept(upgrade, now, fleet.allowed), Finding):
        objection, ledger = spec, ledger_of(fleet.without_slots(freed), now)
        return Plan(actions=(*freed, *reject(upgrade.status, ledger, objection)))
    if not upgrade.has_finalizer and not upgrade.deleting:
        add = AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight")
        return Plan(actions=(add,))

    rollout = view_rollout(fleet, spec, now, freed) if seen is None else add_pods(seen, fleet.pods)
    decision = decide_start(rollout)
    due = prepare(rollout, decision)
    others: tuple[NodeAction, ...] = (*clear_stale(rollout), *release_strays(rollout, decision))
    preparations, cleared = (fleet.not_held_back(each, now) for each in (due, others))
    if upgrade.finished and (preparations or not upgrade.retry_requested):
        return Plan(actions=(*freed, *preparations, *reported(upgrade.status, rollout.upgrade.status)))

    decision, wave_ends = limit_to_prepared(rollout, decision, preparations, due), rollout.completes_wave
    # The status reports the end of a wave before the next one begins. A node whose slot is freed may be admitted again
    # by a later plan, which has read the status without it.
    chosen = [] if wave_ends else [member for member in decision.nodes if member.node not in done]
    ready = [member for member in chosen if _is_read(member)]
    admitted = () if wave_ends else admissions(rollout, ready, decision)

    kind = spec.action.run_kind
    flying = {member.node: replace(member, place=Place.IN_FLIGHT, kind=kind) for member in ready}
    later = rollout.with_members({**rollout.members, **flying}) if flying else rollout
    reopened = upgrade.retry_requested and (rollout.is_retried or rollout.is_called_off)
    status = summarise(upgrade.status, later, decision, reopened=reopened)
    events = new_events(later, upgrade.status, status)
    actions = (*freed, *preparations, *cleared, *admitted, *events, *reported(upgrade.status, status, events))
    unread = _ahead(rollout, chosen) if fleet.pods else tuple(each.node for each in chosen if not _is_read(each))
    return Plan(actions=actions, unread=unread, rollout=rollout)


def _ahead(rollout: RolloutView, chosen: Iterable[NodeState]) -> tuple[NodeName, ...]:
    """Return the nodes to read where pods have objected: more than are chosen, since most have the same pods."""
    if all(_is_read(member) for member in chosen):
        return ()
    more = dict.fromkeys(m.node for m in (*chosen, *rollout.position.pending) if not _is_read(m))
    return tuple(islice(more, READ_AHEAD))


def _is_read(member: NodeState) -> bool:
    return member.candidate is not None and member.candidate.pods is not None
