"""A node that joins after the plan is made is left out, whatever speaks against its upgrade."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES
from tests.scenario.rollout.harness import Scene

NOT_READY = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
SPEAKS_AGAINST_IT: dict[str, tuple[str, Json]] = {
    "nothing": ("v1.30.14", {}),
    "its kubelet is newer": ("v1.34.1", {}),
    "its version is not known": ("v1.99.0", {}),
    "it reports no version": ("", {}),
    "there is no artifact for it": ("v1.30.14", {"status": {"nodeInfo": {"architecture": "riscv64"}}}),
    "its runtime": ("v1.30.14", {"status": {"nodeInfo": {"containerRuntimeVersion": "cri-o://1.20.0"}}}),
    "it is held": ("v1.30.14", {"metadata": {"annotations": {"nodeupgrade.dev/hold": "burn-in"}}}),
    "it is not Ready yet": ("v1.30.14", {"status": {"conditions": [NOT_READY]}}),
    "an autoscaler": (
        "v1.30.14",
        {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
    ),
}


async def joined(version: str, change: Json, **spec: Any) -> Scene:
    """Return a rollout during which a node has joined, and which has done all it can do."""
    scene = Scene(version="v1.34.1")
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(**spec)
    while (await scene.upgrade()).status.planned_at is None:
        await scene.step()
    await scene.step()
    await scene.fleet.add_node("node-9", version=version, overrides=change)
    await scene.finish()
    return scene


@pytest.mark.parametrize("case", SPEAKS_AGAINST_IT)
async def test_it_is_skipped_and_the_rollout_ends_without_it(case: str) -> None:
    scene = await joined(*SPEAKS_AGAINST_IT[case])
    status = (await scene.upgrade()).status
    assert (status.phase, status.progress, status.skips) == ("Succeeded", "3/3", {"NotInPlan": 1})
    assert {task["metadata"]["name"] for task in await scene.kube.list(TASKS)} == {"node-0", "node-1"}


async def test_one_that_another_rollout_holds_is_skipped() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_node("node-1", overrides={"metadata": {"labels": {"pool": "db"}}})
    await scene.apply("to-1-33", waves=[{"name": "all", "size": "100%", "approval": "Manual"}])
    await scene.apply("of-db", nodes={"selector": {"matchLabels": {"pool": "db"}}}, action="Plan")
    for _ in range(40):
        await scene.step("to-1-33")
        await scene.step("of-db")
    await scene.kube.merge(NODES, "node-1", {"metadata": {"labels": {"pool": "web"}}})
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"approvedWaves": ["all"]}})
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


@pytest.mark.parametrize("case", ["its kubelet is newer", "its version is not known", "it is held"])
async def test_where_nodes_may_join_it_takes_part(case: str) -> None:
    nodes = {"selector": {"matchLabels": {"pool": "web"}}, "membership": "Continuous"}
    scene = await joined(*SPEAKS_AGAINST_IT[case], nodes=nodes)
    status = (await scene.upgrade()).status
    assert (status.phase, status.skips) != ("Succeeded", {"NotInPlan": 1})
    assert status.progress == "2/3"


async def test_one_that_was_there_when_the_plan_was_made_is_refused() -> None:
    """No claim says so, since nobody claims a node whose version is not known."""
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_node("node-9", version="v1.99.0")
    await scene.apply()
    await scene.finish()
    status = (await scene.upgrade()).status
    assert status.counts.refused == 1
    assert status.skips == {}
