"""Cluster API's own managers on a lab's nodes: with the extension and without it, on real kubelets.

The managers and the extension run beside the lab's API server, in its network namespace. By hand (``-m slow``):
tests/contract/capi tells the same story with simulated nodes.
"""

import asyncio
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from e2e import pods
from e2e.cluster import BUDGET, SETTLE, Cluster, conditions, disturbed
from e2e.conftest import MakeLab
from e2e.fleet import Fleet, kill_new_kubelet
from e2e.lab import Lab, naming
from e2e.lab.cluster import deploy
from e2e.lab.host import network
from e2e.lab.nodes.node import Node
from e2e.lab.workloads import workload
from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, UPGRADES
from tests.builders.checkout import CHECKOUT
from tests.builders.cluster_api import NEW, OLD
from tests.builders.cluster_api_managers import (
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

pytestmark = [pytest.mark.long, pytest.mark.slow]

PODS = 6
AWAY_SECONDS = float(os.environ.get("NODEUPGRADE_AWAY", "60"))
"""How long the extension is away; ten minutes by hand."""
LABEL = "nodeupgrade.test/pool"
"""Of a node, by which a pod was placed there."""


class Lent:
    """The nodes of a lab, in order; there are no others."""

    def __init__(self, admin: KubeClient, names: Sequence[str]) -> None:
        self.admin, self.left = admin, list(names)

    async def hand_out(self, version: str) -> str | None:
        if not self.left:
            return None
        node = await self.admin.get(NODES, self.left[0])
        assert node["status"]["nodeInfo"]["kubeletVersion"] == version
        await self.admin.merge(NODES, self.left[0], {"spec": {"providerID": provider_id(self.left[0])}})
        return self.left.pop(0)

    async def step(self) -> None:
        """Kubelets, agents and the operator are real."""


class Story:
    """What happens to MachineDeployments of one cluster, whose nodes are the lab's."""

    def __init__(self, fleet: Fleet, provider: Provider, serving: Serving, log: Path) -> None:
        self.fleet, self.provider, self.serving, self.log = fleet, provider, serving, log
        self.admin = provider.admin

    async def add(self, name: str, replicas: int) -> None:
        await self.admin.create(DEPLOYMENTS, deployment(name, replicas))
        await self.provider.until(name, OLD, replicas)

    async def uids(self, name: str) -> set[str]:
        return set(await self.provider.machines(name))

    async def is_up_to_date(self, name: str, replicas: int) -> None:
        async def holds() -> bool:
            status = (await self.admin.get(DEPLOYMENTS, name))["status"]
            return [status.get(key) for key in ("replicas", "upToDateReplicas", "readyReplicas")] == [replicas] * 3

        await self.provider.wait(f"{name} is up to date", holds)

    async def both_are_updated(self, replicas: dict[str, int]) -> None:
        """Of several MachineDeployments at one moment, each has a NodeUpgrade."""
        before, ran = {name: await self.uids(name) for name in replicas}, self.fleet.settled()
        async with self.serving.running():
            await self.serving.register(self.admin)
            for name in replicas:
                await change_version(self.admin, name)
            for name, number in replicas.items():
                await self.provider.until(name, NEW, number)
                await self.is_up_to_date(name, number)
        assert {name: await self.uids(name) for name in replicas} == before
        assert self.fleet.disturbed(ran) == []
        counts = [body["status"]["counts"]["succeeded"] for body in await self.admin.list(UPGRADES)]
        assert sorted(counts) == sorted(replicas.values())

    async def nothing_happens_while_the_extension_is_away(self, name: str) -> None:
        before = await self.provider.machines(name)
        await change_version(self.admin, name)
        await self.provider.steps(AWAY_SECONDS)
        after = await self.provider.machines(name)
        assert after.keys() == before.keys()
        assert not any("deletionTimestamp" in body["metadata"] for body in after.values())
        assert await self.provider.versions(name) == [OLD]

    async def refused_node_waits_for_a_person(self, name: str, node: Node) -> None:
        """A label is gone by which a pod was placed there: the kubelet that starts would end the pod."""
        lab, cluster, before = self.fleet.lab, Cluster(self.fleet.lab, node), await self.uids(name)
        lab.kubectl("label", "node", node.name, f"{LABEL}=web")
        with pods.running(cluster, pods.pod(cluster, "placed", nodeSelector={LABEL: "web"})):
            lab.kubectl("label", "node", node.name, f"{LABEL}-")
            ran = cluster.wait_settled()
            await self.nothing_happens_while_the_extension_is_away(name)
            async with self.serving.running():
                await self.wait_failed(name, f"the node has no label {LABEL}")
                assert f"v{cluster.kubelet_version()}" == OLD
                lab.kubectl("label", "node", node.name, f"{LABEL}=web")
                await asyncio.to_thread(kill_new_kubelet, node, NEW.removeprefix("v"))
                await self.wait_failed(name, "RolledBack")
                assert f"v{cluster.kubelet_version()}" == OLD
                assert await self.uids(name) == before
                assert disturbed(ran, cluster.wait_settled()) == []

                found = [body["metadata"]["name"] for body in await self.admin.list(UPGRADES)]
                (upgrade,) = (each for each in found if each.startswith(name))
                self.fleet.annotate(upgrade, "retry", "again")
                await self.provider.until(name, NEW, 1)
                await self.is_up_to_date(name, 1)
            assert await self.uids(name) == before
            assert disturbed(ran, cluster.wait_settled()) == []

    async def wait_failed(self, name: str, words: str) -> None:
        """Wait until the one Machine says that its update failed, and the manager's log says why."""

        async def said() -> bool:
            (body,) = (await self.provider.machines(name)).values()
            failed = conditions(body).get("Updating", {}).get("reason") == "InPlaceUpdateFailed"
            return failed and words in self.log.read_text()

        await self.provider.wait(f"{name} has failed: {words}", said)

    async def control_is_replaced(self, name: str, node: Node) -> None:
        """The Machine's pods are evicted, and its Node deleted; no other node is left for its successor."""
        before = await self.uids(name)
        ran = {c.id for c in node.settled(quiet=2).running() if c.pod.startswith(f"{workload.NAMESPACE}/")}
        assert len(ran) >= PODS
        await self.admin.delete(EXTENSIONS, "nodeupgrade")
        await change_version(self.admin, name)

        async def replaced() -> bool:
            now = await self.uids(name)
            return bool(now) and not now & before

        await self.provider.wait(f"{name} is replaced", replaced)
        nodes = [body["metadata"]["name"] for body in await self.admin.list(NODES)]
        assert node.name not in nodes
        assert not ran & {c.id for c in node.snapshot().running()}


@pytest.fixture(scope="module")
def fleet(make_lab: MakeLab) -> Fleet:
    return Fleet.with_operator(make_lab("e2e-capi", OLD.removeprefix("v"), nodes=5), pods=PODS)


def test_machines_are_updated_and_not_replaced_unless_there_is_no_extension(fleet: Fleet, tmp_path: Path) -> None:
    def inside() -> None:
        network.enter(network.namespace_file(naming.control_plane_namespace(fleet.lab.name)))
        asyncio.run(told(fleet, tmp_path))

    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(inside).result()


def own_rights(lab: Lab, file: Path) -> Path:
    """Give the extension the account, rights and policy of its overlay; it runs beside the API server, not as a pod."""
    objects = yaml.safe_load_all((CHECKOUT / "overlays/with-cluster-api/cluster-api.yaml").read_text())
    lab.apply(*(each for each in objects if each["kind"] != "Deployment"))
    token = lab.kubectl(
        "create", "token", "nodeupgrade-capi", f"--namespace={deploy.NAMESPACE}", "--duration=2h"
    ).stdout
    config = yaml.safe_load(lab.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token.strip()}
    file.write_text(json.dumps(config))
    return file


async def told(fleet: Fleet, directory: Path) -> None:
    lab = fleet.lab

    def kubectl(*argv: str) -> str:
        return lab.kubectl(*argv, timeout=240).stdout

    place = Place(lab.kubeconfig, naming.CONTROL_PLANE_ADDRESS, naming.API_PORT, kubectl)
    rollouts: Json = {
        "artifacts": {NEW: fleet.pre_staged(NEW.removeprefix("v"))}, "spec": {"verify": {**BUDGET, "settle": SETTLE}},
    }  # fmt: skip
    names = list(fleet.nodes)
    async with KubeClient.open(lab.kubeconfig) as admin, managed(admin, place, directory, drains=True):
        provider = Provider(admin, Lent(admin, names))
        serving = Serving(own_rights(lab, directory / "extension.kubeconfig"), directory / "extension", rollouts)
        story = Story(fleet, provider, serving, directory / "core.log")
        for name, replicas in (("workers", 2), ("others", 1), ("refused", 1), ("control", 1)):
            await story.add(name, replicas)
        await story.both_are_updated({"workers": 2, "others": 1})
        await story.refused_node_waits_for_a_person("refused", fleet.nodes[names[3]])
        await story.control_is_replaced("control", fleet.nodes[names[4]])
