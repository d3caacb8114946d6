"""A work queue as controllers have it: each key is queued once, processed by one worker at a time, and may wait."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName

K = TypeVar("K")

LONGEST_BACKOFF_SECONDS = 60.0


class WorkQueue(Generic[K]):
    """A delaying, rate-limiting work queue for one event loop.

    Adding a key that is queued already keeps the earlier of both times. Adding one that is being processed queues it
    again for afterwards. So no event is lost, and no key is processed twice at the same time.
    """

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._due: dict[K, float] = {}
        self._taken: set[K] = set()
        self._rested: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()

    def add(self, key: K, after: float = 0.0) -> None:
        """Queue a key to be due in ``after`` seconds."""
        due = max(self._now() + after, self._rested.get(key, 0.0))
        self._due[key] = min(due, self._due.get(key, due))
        self._changed.set()

    async def take(self) -> K:
        """Wait for the next key that is due and return it; the caller must call done() when finished."""
        while True:
            self._changed.clear()
            waiting = ((due, key) for key, due in self._due.items() if key not in self._taken)
            first = min(waiting, key=lambda each: each[0], default=None)
            if first is not None and first[0] <= self._now():
                del self._due[first[1]]
                self._taken.add(first[1])
                return first[1]
            try:
                async with asyncio.timeout(None if first is None else first[0] - self._now()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def __len__(self) -> int:
        """Return the number of queued keys, due or not."""
        return len(self._due)

    def done(self, key: K, rest: float = 0.0) -> None:
        """Release a key; however often it is added, it is not due again for ``rest`` seconds."""
        self._taken.discard(key)
        self._rested = {other: until for other, until in self._rested.items() if until > self._now()}
        if rest > 0:
            self._rested[key] = self._now() + rest
        if key in self._due:
            self._due[key] = max(self._due[key], self._rested.get(key, 0.0))
        self._changed.set()

    def back_off(self, key: K) -> float:
        """Count a failure, and return how many seconds to wait: twice as long after each in a row, with jitter."""
        self._failures[key] = self._failures.get(key, 0) + 1
        ceiling = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(self._failures[key], 10))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    def forget(self, key: K) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)


# Turns events into keys: which NodeUpgrades and which of their nodes to reconcile after a change.

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

    def rollout_changed(self, name: str) -> None:
        """Requeue a NodeUpgrade that has changed, may need work, or has a slot to free."""
        self.rollouts.add(name)

    def node_changed(self, name: NodeName) -> None:
        """Requeue a node whose objects have changed, if it is in flight."""
        if (rollout := self._in_flight.get(name)) is not None:
            self.nodes.add(NodeKey(rollout, name), GATHERING_SECONDS)

    def in_flight(self, upgrade: Upgrade, nodes: Iterable[NodeName]) -> None:
        """Requeue the nodes in flight: at once those that are new, and all if somebody asks something else."""
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
