"""Cluster API's own managers on a real API server, with the extension and without it; nodes are simulated."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import conditions
from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, ConflictError, NotFoundError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.cluster_api import ARTIFACT, NEW, OLD
from tests.builders.cluster_api_managers import (
    CONTROL_PLANE,
    CORE,
    DEPLOYMENTS,
    EXTENSIONS,
    OWN,
    Place,
    Provider,
    Serving,
    change_version,
    deployment,
    managed,
    provider_id,
)
from tests.builders.kubeadm_control_plane import PLANES, add_components, add_control_plane
from tests.contract.conftest import MANIFESTS, serving
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_rollout import remove_deleted_agents
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]

NAMESPACE = "nodeupgrade-system"
AWAY_SECONDS = 20.0
BACK_OFF_SECONDS = 30.0
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
def api_server() -> Iterator[ApiServer]:
    """One of its own: what Cluster API leaves is not deleted without its managers."""
    with serving(MANIFESTS) as server:
        yield server


@pytest.fixture
def place(api_server: ApiServer) -> Place:
    return Place(api_server.kubeconfig(), "127.0.0.1", api_server.port, api_server.kubectl)


@pytest.fixture
async def operator(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(api_server.kubeconfig("operator")) as kube:
        yield kube


@pytest.fixture
def nodes(admin: KubeClient, api_server: ApiServer, operator: KubeClient) -> Simulated:
    return Simulated(admin, api_server, operator)


@pytest.fixture
def serving_extension(place: Place, tmp_path: Path) -> Serving:
    return Serving(place.kubeconfig, tmp_path / "extension", ROLLOUTS)


async def test_machines_are_updated_and_not_replaced_unless_there_is_no_extension(
    nodes: Simulated, place: Place, tmp_path: Path, serving_extension: Serving
) -> None:
    """Two MachineDeployments at one moment, one of refused nodes, one while the extension is away, and the control."""
    admin, provider = nodes.admin, Provider(nodes.admin, nodes)
    async with managed(admin, place, tmp_path):
        for name in ("workers", "others", "refused", "away", "control"):
            await admin.create(DEPLOYMENTS, deployment(name, 2))
            await provider.until(name, OLD)
        async with serving_extension.running():
            await serving_extension.register(admin)
            together = ("workers", "others")
            before = {name: await provider.machines(name) for name in together}
            for name in together:
                await change_version(admin, name)
            for name in together:
                await provider.until(name, NEW)
                assert (await provider.machines(name)).keys() == before[name].keys()
            upgrades = await admin.list(UPGRADES)
            assert [body["status"]["counts"]["succeeded"] for body in upgrades] == [2, 2]
            verdicts: list[Any] = [body["spec"]["verdict"]["outcome"] for body in await admin.list(TASKS)]
            assert verdicts == ["Succeeded"] * 4

            await refused_machine_goes_on_by_itself(provider, "refused", tmp_path / f"{CORE}.log")

        earlier = await provider.machines("away")
        await change_version(admin, "away")
        await provider.steps(AWAY_SECONDS)
        assert await provider.versions("away") == [OLD] * 2
        async with serving_extension.running():
            await provider.until("away", NEW)
            assert (await provider.machines("away")).keys() == earlier.keys()

        await admin.delete(EXTENSIONS, "nodeupgrade")
        earlier = await provider.machines("control")
        await change_version(admin, "control")
        await provider.until("control", NEW)
        assert not (await provider.machines("control")).keys() & earlier.keys()


async def refused_machine_goes_on_by_itself(provider: Provider, name: str, log: Path) -> None:
    """Its condition tells that a person is needed, the manager's log why; the change of its Node ends the back-off."""
    admin, before = provider.admin, await provider.machines(name)
    nodes = [body["status"]["nodeRef"]["name"] for body in before.values()]
    for node in nodes:
        await admin.set_condition(NODES, node, "MemoryPressure", {"status": "True"})
    await change_version(admin, name)

    async def has_failed() -> bool:
        bodies = (await provider.machines(name)).values()
        return any(conditions(body).get("Updating", {}).get("reason") == "InPlaceUpdateFailed" for body in bodies)

    await provider.wait(f"{name} has failed", has_failed)
    await provider.steps(BACK_OFF_SECONDS)
    assert (await provider.machines(name)).keys() == before.keys()
    assert "reports MemoryPressure" in await asyncio.to_thread(log.read_text)
    for node in nodes:
        await admin.set_condition(NODES, node, "MemoryPressure", {"status": "False"})
    await provider.until(name, NEW)
    assert (await provider.machines(name)).keys() == before.keys()


async def test_a_machine_of_a_control_plane_is_replaced_with_the_recipe_in_the_log(
    nodes: Simulated, place: Place, tmp_path: Path, serving_extension: Serving
) -> None:
    """What ``kubeadm upgrade`` does first is not done in place, nor half of it."""
    admin, provider = nodes.admin, Provider(nodes.admin, nodes)
    async with managed(admin, place, tmp_path, CONTROL_PLANE), serving_extension.running():
        await serving_extension.register(admin)
        await add_control_plane(admin, place, tmp_path, "two")

        async def has_a_node() -> bool:
            return any(body.get("status", {}).get("nodeRef") for body in await admin.list(OWN))

        await provider.wait("the control plane has a node", has_a_node)
        (machine,) = await admin.list(OWN)
        await add_components(nodes.fleet, machine["status"]["nodeRef"]["name"])
        await admin.merge(PLANES, "two", {"spec": {"version": "v1.31.14"}})

        async def is_deleted() -> bool:
            found = {body["metadata"]["uid"]: body for body in await admin.list(OWN)}
            body = found.get(machine["metadata"]["uid"])
            return body is None or "deletionTimestamp" in body["metadata"]

        await provider.wait("its machine is deleted", is_deleted)
        assert await admin.list(UPGRADES) == []
    assert "cannot be updated in-place by extensions" in (tmp_path / f"{CONTROL_PLANE}.log").read_text()
    told = (tmp_path / "extension" / "extension.log").read_text()
    assert "kubeadm has to upgrade a control plane's node before its kubelet" in told
    assert "docs/kubeadm.md" in told
