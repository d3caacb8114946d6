"""What the controllers keep of a rollout in memory; a new operator does without."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.fleet.actions import FreeSlot, Wait
from nodeupgrade.fleet.setbacks import FailureHistory
from nodeupgrade.fleet.snapshot import FleetSnapshot

PODS_RECENT = timedelta(minutes=1)
"""How old the pods may be for which a node is not admitted."""


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
    # pods of nodes that were not admitted, with when they were read: they are not read again at once
    pods: dict[NodeName, tuple[datetime, tuple[Pod, ...]]] = field(default_factory=dict)
    # counts the beginnings and ends of writes of the status; what was read across one is not recent
    status_writes: int = 0
    recent: FleetSnapshot | None = None  # what was read last
    read_at: float = 0.0  # when that was begun, on the monotonic clock
    reading: asyncio.Future[FleetSnapshot] | None = None  # reads it anew, for all nodes that wait for it

    def remember_pods(self, fleet: FleetSnapshot, now: datetime) -> None:
        """Keep the pods of a plan's nodes, with when they were read."""
        known = {name: each for name, each in self.pods.items() if fleet.pods.get(name) is each[1]}
        self.pods = {name: known.get(name, (now, pods)) for name, pods in fleet.pods.items()}

    def recent_pods(self, fleet: FleetSnapshot, now: datetime) -> dict[NodeName, tuple[Pod, ...]]:
        """Return the pods that are kept and not older than ``PODS_RECENT``, except those of nodes in flight."""
        slots = fleet.slots
        kept = ((name, each) for name, each in self.pods.items() if name not in slots)
        return {name: pods for name, (read_at, pods) in kept if now - read_at < PODS_RECENT}
