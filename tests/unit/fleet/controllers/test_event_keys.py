"""Tests which keys events add to the work queues."""

from typing import Any

from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.controllers.event_keys import GATHERING_SECONDS, IN_FLIGHT_SECONDS, NodeKey, Queues
from nodeupgrade.fleet.controllers.queue import WorkQueue
from tests.builders.queues import Clock, ready
from tests.scenario.rollout.harness import upgrade_object


async def taken(queue: WorkQueue[Any]) -> set[Any]:
    """All keys that are due now, each processed."""
    found = set[Any]()
    while (key := await ready(queue)) is not None:
        found.add(key)
        queue.done(key)
    return found


def upgrade(generation: int = 1) -> Upgrade:
    body = upgrade_object("r")
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": generation}
    return parse_upgrade(body)


A, B, C = map(NodeName, "abc")


async def test_nodes_are_queued_once_they_are_in_flight_and_with_their_rollout() -> None:
    clock = Clock()
    queues = Queues(clock)
    queues.node_changed(A)
    queues.in_flight(upgrade(), (A, B))
    assert await taken(queues.nodes) == {NodeKey("r", A), NodeKey("r", B)}
    queues.in_flight(upgrade(), (A, C))
    assert await taken(queues.nodes) == {NodeKey("r", C)}, "only who is new, at once"
    clock.now += IN_FLIGHT_SECONDS
    assert await taken(queues.nodes) == {NodeKey("r", A)}, "the others at a fixed rhythm"
    queues.in_flight(upgrade(generation=2), (A, C))
    assert len(await taken(queues.nodes)) == 2, "all, if somebody asks something else"
    queues.over("r")
    clock.now += IN_FLIGHT_SECONDS
    queues.node_changed(A)
    clock.now += IN_FLIGHT_SECONDS
    assert await taken(queues.nodes) == set()
    queues.in_flight(upgrade(), (A,))
    await taken(queues.nodes)
    queues.forget()
    queues.in_flight(upgrade(), (A,))
    assert await taken(queues.nodes) == {NodeKey("r", A)}, "in a new term, everything is new"


async def test_news_of_a_node_in_flight_is_gathered() -> None:
    clock = Clock()
    queues = Queues(clock)
    queues.in_flight(upgrade(), (A,))
    await taken(queues.nodes)
    for name in ("a", "a", "of-no-rollout"):
        queues.node_changed(NodeName(name))
    assert await taken(queues.nodes) == set()
    clock.now += GATHERING_SECONDS
    assert await taken(queues.nodes) == {NodeKey("r", A)}
    assert await taken(queues.rollouts) == set()
