"""The slots of a rollout as the next status records them: the only record of which nodes are in flight, and how."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.task.run_id import new_run_id
from nodeupgrade.api.upgrade.status import Slot
from nodeupgrade.fleet.decide.node_state import NodeState
from nodeupgrade.fleet.snapshot import FleetSnapshot


def kept(fleet: FleetSnapshot, now: datetime) -> tuple[Slot, ...]:
    """Return the slots that are held now, with the times since when their Nodes are missing."""
    return tuple(_with_absence(fleet, slot, now) for slot in fleet.slots.values())


def granted(fleet: FleetSnapshot, members: Iterable[NodeState], now: datetime) -> tuple[Slot, ...]:
    """Return the slots of these nodes: those that they hold, and new ones."""
    held = {slot.node: slot for slot in kept(fleet, now)}
    return tuple(held.get(member.node) or _taken(fleet, member, now) for member in members)


def _with_absence(fleet: FleetSnapshot, slot: Slot, now: datetime) -> Slot:
    missing = fleet.is_missing(slot.node)
    if missing is (slot.missing_since is not None):
        return slot
    return replace(slot, missing_since=now if missing else None)


def _taken(fleet: FleetSnapshot, member: NodeState, now: datetime) -> Slot:
    uid = "" if member.view is None else stored_uid(member.view.uid)
    return Slot(node=member.node, uid=uid, wave=member.wave, run=new_run_id(fleet.upgrade.uid, now), since=now)
