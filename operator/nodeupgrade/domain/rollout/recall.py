"""Remembers the members of a rollout from one plan to the next, so that a plan judges only the nodes that have changed.

This never changes a plan: what was found before is used again only if everything that it depends on is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.nodes import Membership
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.failures import kept
from nodeupgrade.domain.rollout.membership import came_too_late, claim_of, is_member, needs_claim
from nodeupgrade.domain.rollout.node_state import NodeState, node_state
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.waves import Unassigned, assign


@dataclass(slots=True)
class Recall:
    """What the last plan of one rollout has found; a new one knows nothing."""

    _terms: tuple[object, ...] = ()
    _nodes: Mapping[NodeName, NodeView] = field(default_factory=dict)
    _tasks: Mapping[NodeName, Task] = field(default_factory=dict)
    _flying: frozenset[NodeName] = frozenset()
    _failures: frozenset[NodeFailure] = frozenset()
    _passing: set[NodeName] = field(default_factory=set)
    """Nodes whose state depends on more than Node and task: on the time, on pods, on a write that failed."""
    _unassigned: dict[NodeName, Unassigned] = field(default_factory=dict)
    _members: dict[NodeName, NodeState] = field(default_factory=dict)

    def members(
        self, fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, flying: frozenset[NodeName]
    ) -> Mapping[NodeName, NodeState]:
        """Return all members with their states, in upgrade order: wave by wave; ``flying`` hold a slot."""
        changed = self._changed(fleet, spec, flying)
        if self._reassign(fleet, spec, changed, flying):
            waves = _in_order(fleet, spec, self._unassigned)
            known, self._members = self._members, {}
            for name, wave in waves.items():
                before = known.get(name)
                if before is None or before.wave != wave or name in changed:
                    before = node_state(fleet, spec, name, wave, now, flying=name in flying)
                self._members[name] = before
        else:
            self._members = dict(self._members)  # whoever got the last ones keeps them
            for name in changed & self._members.keys():
                wave = self._members[name].wave
                self._members[name] = node_state(fleet, spec, name, wave, now, flying=name in flying)
        return self._members

    def _changed(self, fleet: FleetSnapshot, spec: UpgradeSpec, flying: frozenset[NodeName]) -> set[NodeName]:
        """Return the nodes whose state may be another one than last time."""
        upgrade = fleet.upgrade
        closed = upgrade.status.planned_at is not None and spec.nodes.membership is Membership.SNAPSHOT
        of_all = (fleet.server, fleet.api_servers, fleet.active_upgrades, fleet.guard is None, fleet.operator_node)
        terms = (spec, upgrade.uid, upgrade.finished, closed, *of_all)
        if terms != self._terms:
            self._terms, self._flying, self._failures, self._passing = terms, frozenset(), frozenset(), set()
            self._nodes, self._tasks, self._unassigned, self._members = {}, {}, {}, {}
        changed = _differing(self._nodes, fleet.nodes) | _differing(self._tasks, fleet.tasks)
        changed |= self._flying ^ flying
        failures = frozenset(kept(upgrade.status).listed)
        changed |= {failure.node for failure in self._failures ^ failures}
        changed |= self._passing
        self._passing = {*fleet.pods, *fleet.unreadable, *(of for of, _ in fleet.setbacks)}
        self._passing |= {name for name in spec.nodes.names if name not in fleet.nodes}
        self._passing |= {name for name in changed if (node := fleet.nodes.get(name)) is not None and not node.ready}
        self._nodes, self._tasks, self._flying, self._failures = fleet.nodes, fleet.tasks, flying, failures
        return changed | self._passing

    def _reassign(
        self, fleet: FleetSnapshot, spec: UpgradeSpec, changed: set[NodeName], flying: frozenset[NodeName]
    ) -> bool:
        """Look again who takes part, and with what claim; report whether the waves must be assigned anew."""
        differs = not self._members
        for name in changed:
            before = self._unassigned.pop(name, None)
            after = _unassigned(fleet, spec, name) if is_member(fleet, spec, name, flying) else None
            if after is not None:
                self._unassigned[name] = after
            differs |= before != after
        return differs


def _differing(before: Mapping[NodeName, object], after: Mapping[NodeName, object]) -> set[NodeName]:
    """Return the names whose objects are not the very same."""
    changed = {name for name, each in after.items() if before.get(name) is not each}
    return changed | (before.keys() - after.keys())


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> Unassigned:
    task, node = claim_of(fleet, name), fleet.nodes.get(name)
    return Unassigned(
        node=name,
        labels={} if node is None else node.labels,
        wave="" if task is None else task.spec.wave,
        idle=task is None and (node is None or not needs_claim(fleet, spec, node) or came_too_late(fleet, spec, node)),
    )


def _in_order(
    fleet: FleetSnapshot, spec: UpgradeSpec, members: Mapping[NodeName, Unassigned]
) -> Mapping[NodeName, str]:
    """Return the wave of each member: wave by wave, then by name; the operator's own node comes last in its wave."""
    by_name = sorted(members, key=lambda name: (name == fleet.operator_node, name))
    waves = assign(spec.waves, [members[name] for name in by_name])
    place = {wave.name: index for index, wave in enumerate(spec.waves)}
    return {name: waves[name] for name in sorted(by_name, key=lambda name: place.get(waves[name], len(place)))}
