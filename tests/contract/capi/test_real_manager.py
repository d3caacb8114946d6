"""Cluster API's own core manager on a real API server, with the extension and without it; nodes are simulated."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ConflictError, NotFoundError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.cluster_api import ARTIFACT, NEW, OLD
from tests.builders.core_manager import (
    DEPLOYMENTS,
    EXTENSIONS,
    Place,
    Provider,
    Serving,
    change_version,
    deployment,
    managed,
    provider_id,
)
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_rollout import remove_deleted_agents
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

NAMESPACE = "nodeupgrade-system"
AWAY_SECONDS = 20.0
ROLLOUTS: Json = {"artifacts": {NEW: ARTIFACT}, "spec": {"verify": {"settle": "10s"}}}


class Simulated:
    """Nodes that are added when they are asked for, and the operator that looks after the NodeUpgrades."""

    def __init__(self, admin: KubeClient, server: ApiServer, operator: KubeClient) -> None:
        self.admin, self.server, self.handed = admin, server, 0
        self.fleet = FleetSimulator(admin, NAMESPACE, parts={})
        agents = AgentPodSettings(
            namespace=NAMESPACE, image="nodeupgrade:dev", allowed=Allowed(paths=("/opt/kubelet",))
        )
        self.passes = Passes(operator, agents)

    async def hand_out(self, version: str) -> str:
        node, self.handed = f"node-{self.handed}", self.handed + 1
        await self.fleet.add_node(node, version=version, overrides={"spec": {"providerID": provider_id(node)}})
        await self.fleet.add_pod(f"web-{node}", node)
        for pressure in ("MemoryPressure", "DiskPressure", "PIDPressure"):
            await self.admin.set_condition(NODES, node, pressure, {"status": "False"})
        return node

    async def step(self) -> None:
        for body in await self.admin.list(UPGRADES):
            with contextlib.suppress(ConflictError, NotFoundError):
                await self.passes.reconcile(body["metadata"]["name"])
        await self.fleet.tick()
        await remove_deleted_agents(self.admin, self.server)


@pytest.fixture
def place(api_server: ApiServer) -> Place:
    return Place(api_server.kubeconfig(), "127.0.0.1", api_server.port, api_server.kubectl)


@pytest.fixture
async def provider(api_server: ApiServer, place: Place, admin: KubeClient, tmp_path: Path) -> AsyncIterator[Provider]:
    async with KubeClient.open(api_server.kubeconfig("operator")) as operator, managed(admin, place, tmp_path):
        yield Provider(admin, Simulated(admin, api_server, operator))


async def test_machines_are_updated_and_not_replaced_unless_there_is_no_extension(
    provider: Provider, admin: KubeClient, place: Place, tmp_path: Path
) -> None:
    """Two MachineDeployments, the second while the extension is away for a time; the third is the control."""
    serving = Serving(place.kubeconfig, tmp_path / "extension", ROLLOUTS)
    for name in ("workers", "others", "control"):
        await admin.create(DEPLOYMENTS, deployment(name, 2))
        await provider.until(name, OLD)
    async with serving.running():
        await serving.register(admin)
        before = await provider.machines("workers")
        await change_version(admin, "workers")
        await provider.until("workers", NEW)
        assert (await provider.machines("workers")).keys() == before.keys()
        upgrades = await admin.list(UPGRADES)
        assert [body["status"]["counts"]["succeeded"] for body in upgrades] == [2]
        verdicts: list[Any] = [body["spec"]["verdict"]["outcome"] for body in await admin.list(TASKS)]
        assert verdicts == ["Succeeded"] * 2

    before = await provider.machines("others")
    await change_version(admin, "others")
    await provider.steps(AWAY_SECONDS)
    assert await provider.versions("others") == [OLD] * 2
    async with serving.running():
        await provider.until("others", NEW)
        assert (await provider.machines("others")).keys() == before.keys()

    await admin.delete(EXTENSIONS, "nodeupgrade")
    before = await provider.machines("control")
    await change_version(admin, "control")
    await provider.until("control", NEW)
    assert not (await provider.machines("control")).keys() & before.keys()
