"""A whole rollout in which the answer to every single write is lost once: it ends as if nothing had been."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import EVENTS, NODES, PODS, TASKS, UPGRADES, Resource, UnavailableError
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.write_through import WriteThrough
from tests.contract.conftest import forget_upgrades
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import REAL
from tests.contract.kube.faulty_proxy import Request, answer_is_lost, faulty_proxy
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

NAME, NODE = "lost-answers", "lost-answers-0"
SECONDS = 240.0
"""Passes go on as long as this: how many it takes depends on how soon watches tell what was written."""


@dataclass
class Cluster:
    """An API server as everybody sees it, and as the operator does, to whom answers are lost."""

    everybody: TypedKube
    operator: TypedKube
    lost: Counter[str] = field(default_factory=Counter)  # the writes whose answer was lost
    sweep: Callable[[], Awaitable[None]] | None = None  # does what the kubelet does with deleted pods


class Forgetful(WriteThrough):
    """The double as somebody sees it who never hears the first answer to a write."""

    def __init__(self, kube: InMemoryKube) -> None:
        super().__init__(kube, InformedFleet(kube, NAMESPACE, read_upgrade))
        self.lost: Counter[str] = Counter()
        self._written: Counter[str] = Counter()

    async def _learnt(self, resource: Resource, name: str, write: Awaitable[Json], *, dry_run: bool = False) -> Json:
        written = await super()._learnt(resource, name, write, dry_run=dry_run)
        self._lose_the_first(resource, name)
        return written

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        await super().delete(resource, name, uid=uid, resource_version=resource_version)
        self._lose_the_first(resource, name)

    def _lose_the_first(self, resource: Resource, name: str) -> None:
        self._written[f"{resource.plural} {name}"] += 1
        if resource.plural != EVENTS.plural and self._written[f"{resource.plural} {name}"] % 2:
            self.lost[f"{resource.plural} {name}"] += 1
            raise UnavailableError("the answer is lost")


@asynccontextmanager
async def double() -> AsyncIterator[Cluster]:
    kube = InMemoryKube()
    operator = Forgetful(kube)
    yield Cluster(kube, operator, operator.lost)


@asynccontextmanager
async def real(server: ApiServer) -> AsyncIterator[Cluster]:
    async with faulty_proxy(server) as proxy, KubeClient.open(server.kubeconfig()) as admin:
        lost, seen = Counter[str](), Counter[str]()

        def first_time(request: Request) -> bool:
            if request.method == "GET" or "/events" in request.path:
                return False
            what = f"{request.method} {request.path}"
            body = request.raw.partition(b"\r\n\r\n")[2].decode()
            seen[what + body] += 1
            lost[what] += seen[what + body] == 1
            return seen[what + body] == 1

        async def sweep() -> None:
            for pod in await admin.list(PODS.within(NAMESPACE), labels=AGENT_LABELS):
                if "deletionTimestamp" in pod["metadata"]:
                    name = pod["metadata"]["name"]
                    server.kubectl("-n", NAMESPACE, "delete", "pod", name, "--force", "--grace-period=0")

        proxy.break_(first_time, answer_is_lost, times=10**9)
        async with KubeClient.open(proxy.kubeconfig("operator")) as operator:
            yield Cluster(admin, operator, lost, sweep)


@pytest.fixture(params=["double", REAL])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    making = double() if request.param == "double" else real(request.getfixturevalue("api_server"))
    async with making as made:
        yield made


async def test_a_rollout_ends_as_if_every_answer_had_come(cluster: Cluster) -> None:
    await forget_upgrades(cluster.everybody)
    nodes = FleetSimulator(cluster.everybody, NAMESPACE)
    await nodes.add_node(NODE)
    await nodes.add_pod(f"web-{NODE}", NODE)
    await cluster.everybody.create(UPGRADES, upgrade_object(NAME, nodes={"names": [NODE]}))
    fleet = InformedFleet(cluster.operator, NAMESPACE, read_upgrade)
    agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
    rollouts = Passes(WriteThrough(cluster.operator, fleet), agents, fleet=fleet)
    following = asyncio.ensure_future(fleet.run())
    try:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with suppress(NodeUpgradeError):
                if (await rollouts.reconcile(NAME)).over:
                    break
            await nodes.tick()
            if cluster.sweep is not None:
                await cluster.sweep()
            await asyncio.sleep(0)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    upgrade = parse_upgrade(await cluster.everybody.get(UPGRADES, NAME))
    assert (upgrade.status.phase, upgrade.status.in_flight, upgrade.status.counts.succeeded) == ("Succeeded", (), 1)
    assert "unschedulable" not in (await cluster.everybody.get(NODES, NODE))["spec"]
    task = await cluster.everybody.get(TASKS, NODE)
    assert task["spec"]["verdict"]["outcome"] == "Succeeded"
    assert task["spec"]["action"] == "Release"
    assert sum(cluster.lost.values()) >= 5
