"""Turns events into keys: which NodeUpgrades and which of their nodes to reconcile after a change."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.controllers.queue import WorkQueue

GATHERING_SECONDS = 0.1
"""How long to collect events about a node, so that reconciling it once serves all of them."""

IN_FLIGHT_SECONDS = 5.0
"""Interval at which nodes in flight and their rollouts are reconciled, if no event comes first."""


class NodeKey(NamedTuple):
    """A node in flight."""

    rollout: str
    node: NodeName


class Queues:
    """The queues of both controllers.

    An event only makes something be reconciled sooner: rollouts are reconciled at a fixed rhythm, and each time so are
    their nodes in flight.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.rollouts: WorkQueue[str] = WorkQueue(now)
        self.nodes: WorkQueue[NodeKey] = WorkQueue(now)
        self._in_flight: dict[NodeName, str] = {}
        self._asked: dict[str, tuple[int, bool]] = {}

    def __len__(self) -> int:
        """Return the number of queued keys, due or not."""
        return len(self.rollouts) + len(self.nodes)

    def node_changed(self, name: NodeName) -> None:
        """Requeue a node whose objects have changed, if it is in flight."""
        if (rollout := self._in_flight.get(name)) is not None:
            self.nodes.add(NodeKey(rollout, name), GATHERING_SECONDS)

    def in_flight(self, upgrade: Upgrade, nodes: Iterable[NodeName]) -> None:
        """Requeue the nodes in flight: at once those that are new, and all if the request has changed."""
        name, asked, nodes = upgrade.name, (upgrade.generation, upgrade.deleting), frozenset(nodes)
        known = {node for node, rollout in self._in_flight.items() if rollout == name}
        for node in known - nodes:
            del self._in_flight[node]
        for node in nodes:
            at_once = node not in known or asked != self._asked.get(name)
            self._in_flight[node] = name
            self.nodes.add(NodeKey(name, node), 0.0 if at_once else IN_FLIGHT_SECONDS)
        self._asked[name] = asked

    def over(self, name: str) -> None:
        """Forget a rollout that has nothing in flight."""
        self._asked.pop(name, None)
        self._in_flight = {node: rollout for node, rollout in self._in_flight.items() if rollout != name}

    def forget(self) -> None:
        """Forget what is in flight, at the end of a term: the next one finds out."""
        self._in_flight, self._asked = {}, {}
