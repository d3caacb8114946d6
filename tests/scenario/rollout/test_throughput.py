"""How well the operator keeps up with its nodes, at any distance from the API server, in virtual time.

The operator's own queue, workers and informers run; what a machine takes to compute counts for nothing here.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import EVENTS, PODS, TASKS, UPGRADES, Resource
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.controlplane.workers import reconcile_for_ever
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.informer import Timing
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import Queues
from nodeupgrade.fleet.controllers.snapshots import GATHERING_SECONDS, RECENT_SECONDS, Snapshots
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.guard.requirement import GUARD_NAME, STATUS_REPORT
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_agents import SimulatedAgents
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import NoHealth
from tests.doubles.virtual_time import run
from tests.scenario.rollout.harness import GUARD, NAMESPACE, START, upgrade_object

NAME = "to-1-33"
POOL, IN_FLIGHT, AGENT_SECONDS = 40, 20, 40.0
IDEAL = (AGENT_SECONDS + STATUS_REPORT.total_seconds()) * POOL / IN_FLIGHT
WRITES_A_NODE = 15


class Distant(InMemoryKube):
    """An API server some way off; counts what is written, and is to be made. The nodes are as near to it as ever."""

    near: InMemoryKube
    round_trip: float
    written: Counter[str]
    made: Counter[str]

    async def _travel(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(self.round_trip / 2)
        try:
            return await ask()
        finally:
            await asyncio.sleep(self.round_trip / 2)

    async def get(self, resource: Resource, name: str) -> Json:
        found: Json = await self._travel(lambda: self.near.get(resource, name))
        return found

    async def list(self, resource: Resource, **asked: Any) -> list[Json]:
        found: list[Json] = await self._travel(lambda: self.near.list(resource, **asked))
        return found

    def pages(self, resource: Resource, **asked: Any) -> Any:
        return self.near.pages(resource, **asked)

    def watch(self, resource: Resource, **asked: Any) -> Any:
        return self.near.watch(resource, **asked)

    async def create(self, resource: Resource, body: Json) -> Json:
        self.written[resource.plural] += 1
        self.made[resource.plural] += 1
        made: Json = await self._travel(lambda: self.near.create(resource, body))
        return made

    async def merge(self, resource: Resource, name: str, patch: Json, **asked: Any) -> Json:
        self.written[resource.plural] += 1
        done: Json = await self._travel(lambda: self.near.merge(resource, name, patch, **asked))
        return done

    async def replace_status(self, resource: Resource, name: str, status: Json, **asked: Any) -> Json:
        self.written[resource.plural] += 1
        done: Json = await self._travel(lambda: self.near.replace_status(resource, name, status, **asked))
        return done

    async def delete(self, resource: Resource, name: str, **asked: Any) -> None:
        self.written[resource.plural] += 1
        await self._travel(lambda: self.near.delete(resource, name, **asked))


async def rollout(round_trip: float) -> tuple[float, float, Counter[str], Counter[str]]:
    """Return when the first node was in flight, when the rollout was over, and what was written, and made."""
    loop = asyncio.get_running_loop()
    near = InMemoryKube(clock=lambda: START + timedelta(seconds=loop.time()))
    await near.create(GUARD, {"metadata": {"name": GUARD_NAME}})
    nodes = FleetSimulator(near, NAMESPACE)
    for number in range(POOL):
        await nodes.add_node(f"node-{number:03}")
        await nodes.add_pod(f"web-{number}", f"node-{number:03}")
    await near.create(UPGRADES, upgrade_object(NAME, strategy={"maxConcurrent": IN_FLIGHT, "maxUnavailable": "100%"}))
    kube = Distant(clock=near.clock)
    kube.near, kube.round_trip, kube.written, kube.made = near, round_trip, Counter(), Counter()

    queues, timing = Queues(), Timing(monotonic=loop.time)
    fleet = InformedFleet(kube, NAMESPACE, read_upgrade, on_change=queues.node_changed, timing=timing)
    writing, agents = WriteThrough(kube, fleet), AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
    guard = GuardWriter(writing, NAMESPACE, GATHERING_SECONDS)
    snapshots = Snapshots(writing, agents, fleet, guard, NoHealth(), recent_seconds=RECENT_SECONDS, clock=loop.time)
    operator = Controllers(snapshots, on_slot_unused=queues.rollouts.add, on_slots=queues.in_flight)

    async def vanish(_pod: str) -> None:
        """It is gone as soon as it is deleted."""

    jobs = [
        fleet.run(),
        operator.recorder.run(),
        reconcile_for_ever(queues, operator, Metrics(), lambda _upgrade: None),
        SimulatedAgents(near, NAMESPACE, AGENT_SECONDS, vanish, timing=timing).run(),
    ]
    running = asyncio.gather(*jobs)
    first = 0.0
    try:
        while not running.done():
            await asyncio.sleep(0.5)
            upgrade = parse_upgrade(await near.get(UPGRADES, NAME))
            first = first or (loop.time() if upgrade.status.in_flight else 0.0)
            if upgrade.finished:
                assert upgrade.status.counts.succeeded == POOL
                return first, loop.time(), kube.written, kube.made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    raise AssertionError("something ended that must not end")


@pytest.mark.parametrize(("milliseconds", "share"), [(0, 0.9), (20, 0.9), (50, 0.7)])
def test_throughput_is_near_to_the_ideal(milliseconds: float, share: float) -> None:
    first, seconds, written, _ = run(rollout(milliseconds / 1000))
    events = written.pop(EVENTS.plural)
    print(
        f"{milliseconds} ms: first {first:.1f} s, {seconds:.0f} s, {IDEAL / seconds:.2f} of the ideal", written, events
    )
    assert first < 10
    assert IDEAL / seconds >= share
    assert written.total() <= WRITES_A_NODE * POOL, written
    assert written[PODS.plural] == 2 * POOL


def test_nothing_is_made_twice_where_answers_come_late() -> None:
    _, _, _, made = run(rollout(0.5))
    assert (made[TASKS.plural], made[PODS.plural]) == (POOL, POOL)
