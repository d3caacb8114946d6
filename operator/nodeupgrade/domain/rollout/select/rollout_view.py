"""The view of a whole rollout: every member with its state and its wave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.select.membership import claim_of, in_flight, members, needs_claim
from nodeupgrade.domain.rollout.select.node_state import NodeState, Place, node_state
from nodeupgrade.domain.rollout.select.waves import Unassigned, WaveRoster, assign, rosters
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment.

    Attributes:
        now: that moment, UTC.
        members: by node name, in upgrade order: wave by wave.
        waves: the members, by wave.
        flying: nodes that hold a slot.
        unclaimed: members that must be claimed before the plan is made.
        held: members that another rollout holds.
    """

    fleet: FleetSnapshot
    spec: UpgradeSpec
    now: datetime
    members: Mapping[NodeName, NodeState]
    waves: tuple[WaveRoster, ...]
    flying: tuple[NodeName, ...]
    unclaimed: tuple[NodeState, ...]
    held: tuple[NodeState, ...]

    @property
    def upgrade(self) -> Upgrade:
        """The NodeUpgrade."""
        return self.fleet.upgrade

    @property
    def total(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def planned(self) -> bool:
        """Whether every member that needs a claim has one."""
        return (
            bool(self.members) and not self.unclaimed and (self.upgrade.status.planned_at is not None or not self.held)
        )


def view_rollout(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> RolloutView:
    """Return the view of a rollout at a given moment."""
    flying = in_flight(fleet)
    waves = assign(spec.waves, tuple(_unassigned(fleet, spec)))
    holding = set(flying)
    members_of_waves = _in_order(fleet, spec, waves)
    states = [node_state(fleet, spec, name, wave, now, flying=name in holding) for name, wave in members_of_waves]
    held = {s.node for s in states if s.place is Place.REFUSED and s.reason is Reason.OVERLAP_CONFLICT}
    members = {member.node: member for member in states}
    planned = fleet.upgrade.status.planned_at is not None
    excluded = held | {s.node for s in states if planned and s.reason is Reason.WRITE_REFUSED}
    unclaimed = (s for s in states if s.place is not Place.IN_FLIGHT and s.task is None and s.node not in excluded)
    return RolloutView(
        fleet=fleet,
        spec=spec,
        now=now,
        members=members,
        waves=rosters(spec.waves, members),
        flying=flying,
        unclaimed=tuple(s for s in unclaimed if s.view is not None and needs_claim(fleet, spec, s.view)),
        held=tuple(member for member in states if member.node in held),
    )


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec) -> Iterator[Unassigned]:
    for name in members(fleet, spec):
        task, node = claim_of(fleet, name), fleet.nodes.get(name)
        yield Unassigned(
            node=name,
            labels={} if node is None else node.labels,
            wave="" if task is None else task.spec.wave,
            idle=task is None and (node is None or not needs_claim(fleet, spec, node)),
        )


def _in_order(fleet: FleetSnapshot, spec: UpgradeSpec, waves: Mapping[NodeName, str]) -> list[tuple[NodeName, str]]:
    """Sort by wave, then by name; the operator's own node comes last in its wave."""
    place = {wave.name: index for index, wave in enumerate(spec.waves)}
    return sorted(
        waves.items(), key=lambda item: (place.get(item[1], len(place)), item[0] == fleet.operator_node, item[0])
    )
