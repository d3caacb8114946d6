"""Whatever the operator reads of the pods on a node comes from the API server's index, however many others there are.

The API server itself counts what its lists have fetched from etcd; no clock is involved.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from e2e.bench_fleet.filling import WORKLOAD, fill, node_name
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import PODS, UPGRADES
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.write_through import WriteThrough
from tests.contract.conftest import MANIFESTS, serving
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_rollout import remove_deleted_agents
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

NODES, PODS_EACH = 40, 50
SCAN = NODES * PODS_EACH


@pytest.fixture(scope="module")
def full_server() -> Iterator[ApiServer]:
    with serving(MANIFESTS) as server:
        yield server


@pytest.fixture
async def filled(full_server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(full_server.kubeconfig()) as kube:
        with contextlib.suppress(Exception):  # the second test finds it filled
            await fill(kube, full_server, NODES, PODS_EACH)
        async with stirred(kube):
            yield kube


@asynccontextmanager
async def stirred(kube: KubeClient) -> AsyncIterator[None]:
    """Let a pod change now and then, as some pod always does in a cluster with many."""

    async def stir() -> None:
        while True:
            for state in "on", "off":
                patch = {"metadata": {"annotations": {"example.com/stirred": state}}}
                await kube.merge(PODS.within(WORKLOAD), f"web-0-on-{node_name(0)}", patch)
                await asyncio.sleep(0.2)

    stirring = asyncio.ensure_future(stir())
    try:
        yield
    finally:
        stirring.cancel()
        await asyncio.gather(stirring, return_exceptions=True)


def fetched(server: ApiServer) -> int:
    """How many pods the API server's lists have fetched from etcd so far."""
    told = server.kubectl("get", "--raw", "/metrics")
    metric = r"apiserver_storage_list_fetched_objects_total"
    counts = re.findall(rf'^{metric}\{{[^}}]*"/?(?:registry/)?pods"[^}}]*\}} (\S+)', told, re.MULTILINE)
    return sum(int(float(count)) for count in counts)


async def test_the_pods_of_a_node_are_found_without_a_scan(full_server: ApiServer, filled: KubeClient) -> None:
    before = fetched(full_server)
    for number in range(0, NODES, 8):
        assert len(await filled.list_pods_on_node(node_name(number))) == PODS_EACH
    assert fetched(full_server) - before < 10, "one is read to count them"
    whole = await filled._whole(PODS, None, {"spec.nodeName": node_name(1)})
    assert len(whole.items) == PODS_EACH
    assert fetched(full_server) - before >= SCAN, "the naive way scans, or the test proves nothing"


async def test_a_rollout_reads_no_pod_of_any_other_node(full_server: ApiServer, filled: KubeClient) -> None:
    names = [node_name(number) for number in (1, 2)]
    nodes = FleetSimulator(filled, NAMESPACE)
    await filled.create(UPGRADES, upgrade_object(nodes={"names": names}, verify={"readinessGuard": "Off"}))
    async with KubeClient.open(full_server.kubeconfig("operator")) as kube:
        fleet = InformedFleet(kube, NAMESPACE, read_upgrade)
        following = asyncio.ensure_future(fleet.run())
        settings = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
        rollouts = Passes(WriteThrough(kube, fleet), settings, fleet=fleet)
        before = fetched(full_server)
        try:
            async with asyncio.timeout(600):
                while not (await rollouts.reconcile("to-1-33")).over:
                    await nodes.tick()
                    await remove_deleted_agents(filled, full_server)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    upgrade = await filled.get(UPGRADES, "to-1-33")
    assert upgrade["status"]["phase"] == "Succeeded"
    assert fetched(full_server) - before < SCAN / 10, "agents' pods, page by page, and nothing else"
