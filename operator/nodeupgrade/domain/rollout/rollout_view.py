"""The view of a whole rollout: every member with its state and its wave."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.departed import Departed, departed, together
from nodeupgrade.domain.rollout.membership import came_too_late, claim_of, in_flight, is_member, needs_claim
from nodeupgrade.domain.rollout.node_state import NodeState, Place, node_state
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.waves import Unassigned, WaveRoster, assign, rosters

# Failures on record of which no member of the rollout tells any more: its Node or its task is gone.


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment."""

    fleet: FleetSnapshot
    spec: UpgradeSpec
    now: datetime  # that moment, UTC
    members: Mapping[NodeName, NodeState]  # by node name, in upgrade order: wave by wave
    waves: tuple[WaveRoster, ...]  # the members, by wave
    flying: tuple[NodeName, ...]  # nodes that hold a slot
    unclaimed: tuple[NodeState, ...]  # members that must be claimed before the plan is made
    held: tuple[NodeState, ...]  # members that another rollout holds
    departed: Departed  # failures on record of which no member tells any more

    @property
    def upgrade(self) -> Upgrade:
        """The NodeUpgrade."""
        return self.fleet.upgrade

    @property
    def total(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def failed(self) -> int:
        """Number of nodes that count against the failure threshold."""
        return sum(member.failed for member in self.members.values()) + self.departed.failed

    @property
    def planned(self) -> bool:
        """Whether every member that needs a claim has one."""
        return (
            bool(self.members or self.departed.total)
            and not self.unclaimed
            and (self.upgrade.status.planned_at is not None or not self.held)
        )


def view_rollout(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> RolloutView:
    """Return the view of a rollout at a given moment."""
    flying = in_flight(fleet)
    members = _members(fleet, spec, now, frozenset(flying))
    held, unclaimed = list[NodeState](), list[NodeState]()
    planned = fleet.upgrade.status.planned_at is not None
    for state in members.values():
        refused = state.place is Place.REFUSED
        if refused and state.reason is Reason.OVERLAP_CONFLICT:
            held.append(state)
        elif (
            state.task is not None
            or state.place is Place.IN_FLIGHT
            or state.view is None
            or state.reason is Reason.NOT_IN_PLAN
            or (state.record is not None and not fleet.upgrade.retry_asked)
        ):
            continue
        elif not (planned and state.reason is Reason.WRITE_REFUSED) and needs_claim(fleet, spec, state.view):
            unclaimed.append(state)
    gone = departed(fleet.upgrade.status, members.values())
    return RolloutView(
        fleet=fleet,
        spec=spec,
        now=now,
        members=members,
        waves=rosters(spec.waves, members, gone),
        flying=flying,
        unclaimed=tuple(unclaimed),
        held=tuple(held),
        departed=together(gone.values()),
    )


def _members(
    fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, flying: frozenset[NodeName]
) -> Mapping[NodeName, NodeState]:
    """Return all members with their states, in upgrade order: wave by wave; ``flying`` hold a slot."""
    names = {*fleet.nodes, *fleet.tasks, *spec.nodes.names, *flying}
    members = [_unassigned(fleet, spec, name) for name in names if is_member(fleet, spec, name, flying)]
    waves = _in_order(fleet, spec, members)
    return {name: node_state(fleet, spec, name, wave, now, flying=name in flying) for name, wave in waves.items()}


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> Unassigned:
    task, node = claim_of(fleet, name), fleet.nodes.get(name)
    return Unassigned(
        node=name,
        labels={} if node is None else node.labels,
        wave="" if task is None else task.spec.wave,
        idle=task is None and (node is None or not needs_claim(fleet, spec, node) or came_too_late(fleet, spec, node)),
    )


def _in_order(fleet: FleetSnapshot, spec: UpgradeSpec, members: Iterable[Unassigned]) -> Mapping[NodeName, str]:
    """Return the wave of each member: wave by wave, then by name; the operator's own node comes last in its wave."""
    ordered = sorted(members, key=lambda member: (member.node == fleet.operator_node, member.node))
    waves = assign(spec.waves, ordered)
    place = {wave.name: index for index, wave in enumerate(spec.waves)}
    by_wave = sorted(ordered, key=lambda member: place.get(waves[member.node], len(place)))
    return {member.node: waves[member.node] for member in by_wave}
