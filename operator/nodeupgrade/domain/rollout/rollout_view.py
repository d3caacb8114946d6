"""The view of a whole rollout: every member with its state and its wave."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import UnlistedFailures, UpgradeStatus
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.failures import FAILURES, NONE, kept, next_look, uid_kept, wave_kept
from nodeupgrade.domain.rollout.membership import came_too_late, claim_of, in_flight, is_member, needs_claim
from nodeupgrade.domain.rollout.node_state import NodeState, Place, node_state
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.waves import (
    Departed,
    Unassigned,
    WavePosition,
    WaveRoster,
    assign,
    rosters,
    together,
    wave_position,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment."""

    fleet: FleetSnapshot
    spec: UpgradeSpec
    now: datetime  # that moment, UTC
    members: Mapping[NodeName, NodeState]  # by node name, in upgrade order: wave by wave
    waves: tuple[WaveRoster, ...]  # the members, by wave
    position: WavePosition  # the current wave
    flying: tuple[NodeName, ...]  # nodes that hold a slot
    unclaimed: tuple[NodeState, ...]  # members that must be claimed before the plan is made
    held: tuple[NodeState, ...]  # members that another rollout holds
    departed: Departed  # failures on record of which no member tells any more
    freed: frozenset[NodeName]  # nodes whose slots the plan frees, and that hold none in this view

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


def view_rollout(
    fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: frozenset[NodeName] = frozenset()
) -> RolloutView:
    """Return the view of a rollout at a given moment."""
    flying = frozenset(in_flight(fleet))
    names = {*fleet.nodes, *fleet.tasks, *spec.nodes.names, *flying}
    unassigned = [_unassigned(fleet, spec, name) for name in names if is_member(fleet, spec, name, flying)]
    waves = _in_order(fleet, spec, unassigned)
    members = (node_state(fleet, spec, name, wave, now, flying=name in flying) for name, wave in waves.items())
    return view_members(fleet, spec, now, {member.node: member for member in members}, freed)


def view_members(
    fleet: FleetSnapshot,
    spec: UpgradeSpec,
    now: datetime,
    members: Mapping[NodeName, NodeState],
    freed: frozenset[NodeName] = frozenset(),
) -> RolloutView:
    """Return the view of a rollout, given its members in upgrade order."""
    gone = departed(fleet.upgrade.status, members.values())
    waves = rosters(spec.waves, members, gone)
    refused = {m.node for m in members.values() if m.place is Place.REFUSED and m.reason is Reason.OVERLAP_CONFLICT}
    return RolloutView(
        fleet=fleet,
        spec=spec,
        now=now,
        members=members,
        waves=waves,
        position=_position(fleet.upgrade, spec, waves, members, now),
        flying=tuple(sorted(member.node for member in members.values() if member.place is Place.IN_FLIGHT)),
        unclaimed=tuple(m for m in members.values() if m.node not in refused and _is_unclaimed(fleet, spec, m)),
        held=tuple(member for member in members.values() if member.node in refused),
        departed=together(gone.values()),
        freed=freed,
    )


def _is_unclaimed(fleet: FleetSnapshot, spec: UpgradeSpec, member: NodeState) -> bool:
    """Report whether a member must be claimed before the plan is made."""
    if (
        member.task is not None
        or member.place is Place.IN_FLIGHT
        or member.view is None
        or member.reason is Reason.NOT_IN_PLAN
        or (member.record is not None and not fleet.upgrade.retry_asked)
    ):
        return False
    refused = fleet.upgrade.status.planned_at is not None and member.reason is Reason.WRITE_REFUSED
    return not refused and needs_claim(fleet, spec, member.view)


def _position(
    upgrade: Upgrade,
    spec: UpgradeSpec,
    waves: Sequence[WaveRoster],
    members: Mapping[NodeName, NodeState],
    now: datetime,
) -> WavePosition:
    """Return the current wave; ``action: Plan`` ignores waves."""
    if spec.action is not RolloutAction.PLAN:
        return wave_position(upgrade, waves, now)
    return WavePosition(index=-1, pending=tuple(m for m in members.values() if m.place is Place.PENDING))


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


def departed(status: UpgradeStatus, members: Iterable[NodeState]) -> Mapping[str, Departed]:
    """Return, by wave, the failures on record of which no member tells any more."""
    record = kept(status)
    if not record.listed and not record.more:
        return {}
    listed = {each.uid for each in record.listed}
    present, numbered = set[str](), Counter[tuple[str, str]]()
    for member in members:
        if member.record is not None:
            present.add(member.record.uid)
        elif (task := member.task) is not None and (verdict := task.verdict) is not None:
            uid = uid_kept(task.spec.node_uid)
            present.add(uid)
            if uid in listed or member.place is Place.IN_FLIGHT or next_look(task) is not None:
                continue
            if verdict.outcome in FAILURES or verdict.outcome is Verdict.REFUSED:
                unknown = bool(task.reported.containers.unknown) and not verdict.restarted
                wave = wave_kept(task.spec.wave)
                numbered[wave, "failed" if verdict.outcome in FAILURES else "refused"] += 1
                numbered[wave, "restarted"] += verdict.restarted
                numbered[wave, "unknown"] += unknown
    gone = [each for each in record.listed if not each.uid or each.uid not in present]
    waves = {*map(wave_kept, (each.wave for each in gone)), *record.more}
    return {
        wave: Departed(
            listed=tuple(each for each in gone if wave_kept(each.wave) == wave),
            more=_others(wave, record.more.get(wave, NONE), numbered),
        )
        for wave in sorted(waves)
    }


def _others(wave: str, numbers: UnlistedFailures, present: Counter[tuple[str, str]]) -> UnlistedFailures:
    """Return the numbers without the nodes whose tasks still tell of them."""
    return UnlistedFailures(
        refused=max(0, numbers.refused - present[wave, "refused"]),
        failed=max(0, numbers.failed - present[wave, "failed"]),
        restarted=max(0, numbers.restarted - present[wave, "restarted"]),
        unknown=max(0, numbers.unknown - present[wave, "unknown"]),
    )
