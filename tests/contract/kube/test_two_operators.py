"""Two operators that are killed at random through a rollout, and what docs/design.md promises meanwhile.

Operators are processes with the token of a pod, so that the fence is in force; each node keeps to the task protocol.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest

from e2e.fleet_faults.oracle import Oracle
from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import LEASES, NODES, PODS, TASKS, UPGRADES, Resource
from nodeupgrade.fleet.caches.informer import Informer
from nodeupgrade.fleet.caches.object_cache import Delta
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.kubelets import vanishing
from tests.contract.kube.test_operator_process import Operator, operator_process
from tests.doubles.kube_agents import SimulatedAgents
from tests.doubles.kube_fleet import FleetSimulator
from tests.enumeration import WHOLE
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

NAME = "two-operators"
POOL = [f"two-{number:02}" for number in range(36 if WHOLE else 9)]
FOREIGN, UNSELECTED = "two-foreign", "two-unselected"
BUDGET, AGENT_SECONDS = len(POOL) // 3, 5.0
REPLICAS = "two-operator-a", "two-operator-b"
PAUSED_AFTER = len(POOL) // 3
"""Nodes upgraded when a person pauses the rollout."""
SECONDS = 1800


@dataclass
class Cluster:
    """The objects of this test as watches tell of them, compared with what must hold after each write."""

    kube: KubeClient
    objects: dict[tuple[str, str | None, str], Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        foreign, unselected = frozenset({FOREIGN}), frozenset({UNSELECTED})
        self.oracle = Oracle(self.objects, BUDGET, True, foreign, unselected)

    async def follow(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in (NODES, TASKS, UPGRADES):
                group.create_task(self._follow(kind))
            group.create_task(self._follow(PODS.within(NAMESPACE), AGENT_LABELS))

    async def _follow(self, kind: Resource, labels: Mapping[str, str] | None = None) -> None:
        def changed(delta: Delta[Json]) -> None:
            body = delta.after or delta.before
            assert body is not None
            self._told(kind, body, exists=delta.after is not None)

        await Informer(self.kube, kind, dict, labels=labels, on_change=changed).run()

    def _told(self, kind: Resource, body: Json, *, exists: bool = True) -> None:
        name = body["metadata"]["name"]
        if "two-" not in name:
            return
        if exists:
            self.objects[kind.plural, kind.namespace, name] = body
            self.oracle.look("", name)
        else:
            self.objects.pop((kind.plural, kind.namespace, name), None)

    async def end(self) -> Json:
        """Compare the end, as the API server has it now: watches of different kinds may lag behind each other."""
        for kind in (NODES, TASKS):
            for body in await self.kube.list(kind):
                self._told(kind, body)
        return self.oracle.end(set(), None)

    async def upgrade(self) -> Upgrade:
        return parse_upgrade(await self.kube.get(UPGRADES, NAME))

    async def is_under_way(self) -> bool:
        return (await self.upgrade()).status.counts.succeeded >= PAUSED_AFTER

    async def is_at_rest(self) -> bool:
        return not (await self.upgrade()).status.in_flight

    async def is_over(self) -> bool:
        """Report whether the rollout has ended, nothing is left to do, and the watches have told so."""
        seen = parse_upgrade(self.objects[UPGRADES.plural, None, NAME])
        return seen.finished and not any(plural == PODS.plural for plural, _, _ in self.objects)

    async def workload(self) -> dict[str, str]:
        pods = await self.kube.list(PODS.within("default"))
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    async def pause(self, value: str | None) -> None:
        await self.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/pause": value}}})


@dataclass
class Replicas:
    """Both operators. One that is killed is started again, as its kubelet would."""

    server: ApiServer
    chance: random.Random
    kills: int = 0
    _alive: dict[str, Operator] = field(default_factory=dict)

    async def run(self) -> None:
        """Keep them alive until cancelled; one that ends by itself is an error."""
        async with asyncio.TaskGroup() as group:
            for pod in REPLICAS:
                group.create_task(self._keep(pod))

    async def _keep(self, pod: str) -> None:
        kubeconfig = self.server.operator_kubeconfig(pod)
        while True:
            async with operator_process(kubeconfig, POD_NAME=pod) as operator:
                self._alive[pod] = operator
                status = await operator.process.wait()
                assert status == -9, operator.log.decode()[-3000:]
            await asyncio.sleep(self.chance.uniform(0, 3))

    async def kill(self) -> None:
        """Kill one of them or both, whatever they are doing, again and again."""
        while True:
            await asyncio.sleep(self.chance.uniform(5, 25))
            for pod in self.chance.choice([REPLICAS[:1], REPLICAS[1:], REPLICAS]):
                if pod in self._alive and self._alive[pod].process.returncode is None:
                    self._alive[pod].process.kill()
                    self.kills += 1


async def test_killed_at_random_through_a_rollout(admin: KubeClient, api_server: ApiServer) -> None:
    fleet, cluster = FleetSimulator(admin, NAMESPACE), Cluster(admin)
    for name in (*POOL, FOREIGN, UNSELECTED):
        pool = "other" if name == UNSELECTED else "two"
        spec = {"unschedulable": True} if name == FOREIGN else {}
        await fleet.add_node(name, overrides={"metadata": {"labels": {"pool": pool}}, "spec": spec})
        await fleet.add_pod(f"web-on-{name}", name)
    before, seed = await cluster.workload(), secrets.randbelow(10**6)
    print(f"seed {seed}")
    replicas = Replicas(api_server, random.Random(seed))  # noqa: S311 - when to kill is no secret
    agents = SimulatedAgents(admin, NAMESPACE, AGENT_SECONDS, vanishing(admin.session(), NAMESPACE))
    terms = {"strategy": {"maxConcurrent": BUDGET, "maxUnavailable": "100%"}, "timeouts": {"node": "6h"}}
    selector = {"selector": {"matchLabels": {"pool": "two"}}}
    await admin.create(UPGRADES, upgrade_object(NAME, nodes=selector, **terms))

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        background = [group.create_task(each) for each in (cluster.follow(), agents.run(), replicas.run())]
        background.append(group.create_task(replicas.kill()))
        await paused_in_between(cluster, replicas)
        await reached(cluster.is_over)
        for task in background:
            task.cancel()

    lease = await admin.get(LEASES.within(NAMESPACE), LEASE_NAME)
    print(f"{replicas.kills} kills, {lease['spec']['leaseTransitions']} terms")
    upgrade = await cluster.upgrade()
    assert (upgrade.status.phase, upgrade.status.counts.succeeded) == ("Succeeded", len(POOL))
    assert replicas.kills >= 3, "otherwise nothing was tried"
    end = await cluster.end()
    assert cluster.oracle.problems == []
    assert end["nodes"] == {
        **dict.fromkeys(POOL, ("v1.33.13", False)),
        FOREIGN: ("v1.30.14", True),
        UNSELECTED: ("v1.30.14", False),
    }
    assert await cluster.workload() == before


async def paused_in_between(cluster: Cluster, replicas: Replicas) -> None:
    """A person pauses the rollout, waits until no node is in flight, and lets it go on after one more kill."""
    await reached(cluster.is_under_way)
    await cluster.pause("true")
    await reached(cluster.is_at_rest)
    kills = replicas.kills

    async def once_more() -> bool:
        return replicas.kills > kills

    await reached(once_more)
    await cluster.pause(None)


async def reached(state: Callable[[], Awaitable[bool]]) -> None:
    while not await state():  # noqa: ASYNC110 - what we wait for happens in other processes
        await asyncio.sleep(0.5)
