"""A whole rollout over a real API server, with the operator's own permissions: the same story as on the double."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import CONFIGMAPS, EVENTS, NODES, PODS, UPGRADES
from nodeupgrade.fleet.actions import Hold, NodeAction, Wait
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.doubles.kube_fleet import FleetSimulator
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object
from tests.scenario.rollout.storyfile import read_story
from tests.scenario.rollout.storywords import summed_up
from tests.scenario.rollout.storywords import told as told_as

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

SECONDS = 300
STORY = read_story(ROOT / "tests/scenario/rollout/stories/guarded_run.txt")


@pytest.fixture
async def operator(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(api_server.kubeconfig("operator")) as kube:
        yield kube


async def test_same_story_as_on_the_double(admin: KubeClient, operator: KubeClient, api_server: ApiServer) -> None:
    fleet = FleetSimulator(admin, NAMESPACE)
    await fleet.add_node("node-0")
    await fleet.add_pod("web-on-node-0", "node-0")
    await admin.create(UPGRADES, upgrade_object(nodes={"names": ["node-0"]}))
    rollouts = Passes(operator, AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev"))

    told: list[str] = []
    done = await rollouts.reconcile("to-1-33")
    async with asyncio.timeout(SECONDS):
        while not done.over:
            told += [line for action in done.actions if (line := tell(action))]
            await fleet.tick()
            await remove_deleted_agents(admin, api_server)
            await asyncio.sleep(0 if done.changed else 0.5)  # the node's kubelet is listened to for a while
            done = await rollouts.reconcile("to-1-33")

    expected = [line.split(maxsplit=1)[1] for line in STORY.narration.splitlines() if " Wait " not in line]
    assert list(map(timeless, told)) == list(map(timeless, expected))
    assert not (await admin.get(CONFIGMAPS.within(NAMESPACE), GUARD_NAME)).get("data")
    node = await admin.get(NODES, "node-0")
    assert "unschedulable" not in node["spec"]
    upgrade = parse_upgrade(await admin.get(UPGRADES, "to-1-33"))
    assert (upgrade.status.phase, upgrade.status.in_flight) == ("Succeeded", ())
    recorded = await admin.list(EVENTS.within("default"), fields={"involvedObject.name": "to-1-33"})
    assert {"Progressing", "AllNodesUpgraded"} <= {event["reason"] for event in recorded}
    shown = api_server.kubectl("wait", "nu/to-1-33", "--for=condition=Succeeded", "--timeout=5s")
    assert "condition met" in shown


def tell(action: NodeAction) -> str:
    return "" if isinstance(action, Wait | Hold) else "".join(summed_up([action])) or told_as(action)


def timeless(line: str) -> str:
    return re.sub(r"\d{4}-\S+Z", "then", line)


async def remove_deleted_agents(admin: KubeClient, api_server: ApiServer) -> None:
    """Do what a kubelet does once the containers of a deleted pod are gone."""
    for pod in await admin.list(PODS.within(NAMESPACE), labels=AGENT_LABELS):
        if "deletionTimestamp" in pod["metadata"]:
            name = pod["metadata"]["name"]
            delete = ("delete", "pod", "-n", NAMESPACE, name, "--force", "--grace-period=0", "--ignore-not-found")
            api_server.kubectl(*delete)  # the operator forces the deletion of some of them as well
