"""What the controllers keep of a rollout in memory; a new operator does without."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.nodes import Taint
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import FreeSlot, Wait
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.state_checks import held_until
from nodeupgrade.fleet.setbacks import FailureHistory
from nodeupgrade.fleet.snapshot import FleetSnapshot

PODS_RECENT = timedelta(minutes=1)
"""How long pods that object are not read again, at least."""

RECENT_PER_NODE = timedelta(seconds=0.5)
"""The same for each node whose pods object, if that is more: reading them takes a part of the operator's time only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What the pods of a node object to, and what that depends on besides the pods."""

    finding: Finding
    read_at: datetime
    generation: int  # of the NodeUpgrade
    uid: str  # of the Node, as what follows
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]

    def applies_to(self, fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
        """Report whether it would be found again if the pods were the same."""
        node, spec = fleet.nodes.get(name), fleet.upgrade.spec
        if node is None or spec is None or self.generation != fleet.upgrade.generation:
            return False
        if self.finding.reason is Reason.HELD_BY_POD and now >= held_until(spec, fleet.tasks.get(name), now):
            return False
        return (self.uid, self.labels, self.taints) == (node.uid, node.labels, node.taints)


@dataclass(slots=True)
class RolloutMemory:
    """What is kept of one NodeUpgrade; a new operator does without."""

    # writes that failed lately, and agents that ended early
    failures: FailureHistory = field(default_factory=FailureHistory)
    # what nodes in flight waited for when they were reconciled last. One that waits for its slot to be freed is not
    # touched any more: the slot may be gone at any moment.
    waiting: dict[NodeName, Wait | FreeSlot] = field(default_factory=dict)
    # nodes whose start was not answered: it may have taken effect, or may yet, until their task is written
    starts_unanswered: set[NodeName] = field(default_factory=set)
    # what pods objected to on nodes that were not admitted; the pods themselves would take too much
    objections: dict[NodeName, Objection] = field(default_factory=dict)
    reading_on: bool = False  # whether the next plan goes on reading pods of other nodes: until then all of it is kept
    # counts the beginnings and ends of writes of the status; what was read across one is not recent
    status_writes: int = 0
    recent: FleetSnapshot | None = None  # what was read last
    read_at: float = 0.0  # when that was begun, on the monotonic clock
    reading: asyncio.Future[FleetSnapshot] | None = None  # reads it anew, for all nodes that wait for it

    def remember_objections(self, rollout: RolloutView, now: datetime, *, reading_on: bool) -> None:
        """Keep what pods object to, with when they were read."""
        self.reading_on = reading_on
        found, generation = dict[NodeName, Objection](), rollout.upgrade.generation
        for name, member in rollout.members.items():
            if (candidate := member.candidate) is None or (finding := candidate.objection) is None:
                continue
            known, node = self.objections.get(name), candidate.node
            found[name] = (
                known
                if known is not None and known.finding is finding
                else Objection(
                    finding=finding, read_at=now, generation=generation, uid=node.uid, labels=node.labels,
                    taints=node.taints,
                )
            )  # fmt: skip
        self.objections = found

    def recalled(self, fleet: FleetSnapshot, now: datetime) -> FleetSnapshot:
        """Return a snapshot with what pods object to on nodes that are not in flight, as far as that still applies."""
        slots, recent = fleet.slots, max(PODS_RECENT, len(self.objections) * RECENT_PER_NODE)
        kept = {
            name: each.finding
            for name, each in self.objections.items()
            if name not in slots
            and (self.reading_on or now - each.read_at < recent)
            and each.applies_to(fleet, name, now)
        }
        return replace(fleet, objections=kept)
