"""Finds out what follows at once on a write for a node, with the objects as they are after it."""

import asyncio
from dataclasses import replace

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import NodeAction
from nodeupgrade.domain.rollout.flight import following, leads_on
from nodeupgrade.domain.rollout.planner import advance_in_flight, unread_in_flight
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.gathering import look_at
from nodeupgrade.engine.rollout.lanes import Follow, Lanes, nothing
from nodeupgrade.engine.rollout.passes import PassOptions
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.typed_kube import TypedKube


def following_on(
    seen: FleetSnapshot,
    source: FleetSource,
    kube: TypedKube,
    *,
    lanes: Lanes,
    pace: PassOptions,
    limit: asyncio.Semaphore,
) -> Follow:
    """Return what tells lanes which actions follow at once, as long as what a pass has ``seen`` is recent.

    What waits until the pods of a node are read may take any time, as it would in a pass.

    Args:
        seen: What the pass has planned with; everything that is not about one node is taken from it.
        source: Provides Nodes, tasks and agent pods as they are after each write.
        kube: The API server, for the pods of a node.
        lanes: Of the same rollout.
        pace: Says for how long.
        limit: Bounds how many nodes are looked at at the same time.
    """
    if not pace.follow:
        return nothing
    ends = pace.clock() + pace.follow

    async def follow(name: NodeName, done: NodeAction | None) -> tuple[NodeAction, ...]:
        if done is not None and (not leads_on(done) or pace.clock() > ends):
            return ()
        unsettled = lanes.unsettled  # before anything is read
        objects = await source.read(seen.upgrade)
        fleet = replace(
            seen,
            nodes=objects.nodes,
            tasks=objects.tasks,
            agents=objects.agents,
            artifacts=objects.artifacts,
            unreadable=objects.unreadable,
            busy=frozenset(),
            unsettled=unsettled,
        )
        if name in unread_in_flight(fleet, kube.utcnow()):
            fleet = await look_at(kube, fleet, (name,), limit)
        return following(done, advance_in_flight(fleet, kube.utcnow(), (name,)))

    return follow
