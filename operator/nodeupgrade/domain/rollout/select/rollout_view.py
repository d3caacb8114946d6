"""One look at a whole rollout: every member, how it stands, and in which wave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.select.membership import claim_of, in_flight, members, needs_claim
from nodeupgrade.domain.rollout.select.node_state import NodeState, Place, node_state
from nodeupgrade.domain.rollout.select.waves import Recruit, WaveRoster, assign, rosters
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment.

    Attributes:
        now: that moment.
        members: by node, in the order in which nodes are taken: wave by wave.
        waves: the same, by wave.
        flying: nodes that hold a slot.
        unclaimed: members that have to be claimed before the plan is made.
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
        """The rollout's object."""
        return self.fleet.upgrade

    @property
    def total(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def planned(self) -> bool:
        """Whether every member that needs to be is claimed."""
        return (
            bool(self.members) and not self.unclaimed and (self.upgrade.status.planned_at is not None or not self.held)
        )


def view_rollout(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> RolloutView:
    """Look at every member."""
    flying = in_flight(fleet)
    waves = assign(spec.waves, tuple(_recruits(fleet, spec)))
    holding = set(flying)
    members_of_waves = _in_order(fleet, spec, waves)
    found = [node_state(fleet, spec, name, wave, now, flying=name in holding) for name, wave in members_of_waves]
    held = {s.node for s in found if s.place is Place.REFUSED and s.reason is Reason.OVERLAP_CONFLICT}
    members = {member.node: member for member in found}
    made = fleet.upgrade.status.planned_at is not None
    out = held | {s.node for s in found if made and s.reason is Reason.WRITE_REFUSED}
    unclaimed = (s for s in found if s.place is not Place.IN_FLIGHT and s.task is None and s.node not in out)
    return RolloutView(
        fleet=fleet,
        spec=spec,
        now=now,
        members=members,
        waves=rosters(spec.waves, members),
        flying=flying,
        unclaimed=tuple(s for s in unclaimed if s.view is not None and needs_claim(fleet, spec, s.view)),
        held=tuple(member for member in found if member.node in held),
    )


def _recruits(fleet: FleetSnapshot, spec: UpgradeSpec) -> Iterator[Recruit]:
    for name in members(fleet, spec):
        task, node = claim_of(fleet, name), fleet.nodes.get(name)
        yield Recruit(
            node=name,
            labels={} if node is None else node.labels,
            wave="" if task is None else task.spec.wave,
            idle=task is None and (node is None or not needs_claim(fleet, spec, node)),
        )


def _in_order(fleet: FleetSnapshot, spec: UpgradeSpec, waves: Mapping[NodeName, str]) -> list[tuple[NodeName, str]]:
    """Sort by wave, then by name, the operator's own node last of its wave."""
    place = {wave.name: index for index, wave in enumerate(spec.waves)}
    return sorted(
        waves.items(), key=lambda item: (place.get(item[1], len(place)), item[0] == fleet.operator_node, item[0])
    )
