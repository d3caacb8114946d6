"""What all rollouts together may take, whatever becomes of one of them, and of the writes about it."""

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

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
