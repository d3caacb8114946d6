"""What all rollouts together may take, whatever becomes of one of them, and of the writes about it."""

from contextlib import suppress
from dataclasses import dataclass

import pytest

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES, ConflictError, Resource, UnavailableError
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator, Part
from tests.scenario.rollout.harness import NAMESPACE, Scene, upgrade_object
from tests.scenario.rollout.test_informed import Operator, running

ONE = ClusterBudget(max_in_flight=IntOrPercent(1))
ABANDON = "nodeupgrade.dev/abandon"


async def test_a_run_that_was_abandoned_counts_until_it_is_over() -> None:
    """Who writes NodeUpgrades may abandon one, and so would have as many nodes in flight as there are names."""
    scene = Scene(parts={"node-0": Part.HANG})
    for name in ("node-0", "node-1"):
        await scene.fleet.add_node(name)
    scene.operator.snapshots.cluster_budget = ONE
    await scene.apply("first", nodes={"names": ["node-0"]})
    await scene.apply("second", nodes={"names": ["node-1"]})
    while (await scene.kube.list(TASKS) or [{}])[0].get("status", {}).get("phase") != "Running":
        await scene.step("first")
    uid = (await scene.upgrade("first")).uid
    await scene.kube.merge(UPGRADES, "first", {"metadata": {"annotations": {ABANDON: uid}}})
    await scene.kube.delete(UPGRADES, "first")
    for _ in range(10):
        await scene.step("first")
        await scene.step("second")
    assert not [each for each in await scene.kube.list(UPGRADES) if each["metadata"]["name"] == "first"]
    assert await scene.in_flight("second") == ()
    assert "1 node of the cluster in flight" in str((await scene.upgrade("second")).status.conditions)

    task = await scene.kube.get(TASKS, "node-0")
    await scene.kube.replace_status(TASKS, "node-0", {**task["status"], "phase": "Succeeded"})
    await scene.finish("second")
    assert (await scene.upgrade("second")).status.phase == "Succeeded"


@dataclass
class Forgetful(InMemoryKube):
    """Carries a write out by which a node takes a slot, and does not say so: the retry of it conflicts, or nothing."""

    answer: type[NodeUpgradeError] = UnavailableError
    lost: int = 0

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        written = await super().replace_status(resource, name, status, resource_version=resource_version)
        if resource == UPGRADES and status.get("inFlight") and not self.lost:
            self.lost += 1
            raise self.answer("no answer")
        return written


@pytest.mark.parametrize("answer", [UnavailableError, ConflictError])
async def test_an_admission_that_was_not_answered_counts_for_the_others(answer: type[NodeUpgradeError]) -> None:
    """No event about it may have come when the next rollout looks at the NodeUpgrades that are known."""
    kube = Forgetful(version="v1.33.13", answer=answer)
    fleet = FleetSimulator(kube, NAMESPACE)
    for number in range(2):
        await fleet.add_node(f"node-{number}")
        await kube.create(UPGRADES, upgrade_object(f"to-{number}", nodes={"names": [f"node-{number}"]}))
    operator = Operator(kube)
    operator.rollouts.snapshots.cluster_budget = ONE
    async with running(operator):
        for name in ("to-0", "to-1") * 5:
            with suppress(UnavailableError):
                await operator.rollouts.rollouts.reconcile(name)
            operator.rollouts.renew(name)
            flying = [each["status"]["inFlight"] for each in await kube.list(UPGRADES) if each.get("status")]
            assert sum(map(len, flying)) <= 1
    assert kube.lost
