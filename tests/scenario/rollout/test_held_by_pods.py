"""A pod may hold its node: the rollout goes on with others, says who holds it until when, and then goes on with it."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, Resource
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import START, Scene

HOLD = "nodeupgrade.dev/hold"
LIMIT = timedelta(hours=1)


async def scene(*, why: str = "checkpoint running", pod_hold: str | None = None) -> Scene:
    """Two nodes; a pod of the first one holds it."""
    it = Scene()
    for number in range(2):
        await it.fleet.add_node(f"node-{number}")
        await it.fleet.add_pod(f"web-{number}", f"node-{number}")
    await hold(it, why)
    if pod_hold is None:
        await it.apply()
    else:
        await it.apply(timeouts={"podHold": pod_hold})
    return it


async def hold(it: Scene, why: str | None) -> None:
    await it.kube.merge(PODS.within("default"), "web-0", {"metadata": {"annotations": {HOLD: why}}})


async def upgraded(it: Scene) -> set[str]:
    nodes = await it.kube.list(NODES)
    done = (node for node in nodes if node["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.13")
    return {node["metadata"]["name"] for node in done}


async def until(it: Scene, *nodes: str, steps: int = 600) -> bool:
    """Go on until these nodes are upgraded."""
    for _ in range(steps):
        if {*nodes} <= await upgraded(it):
            return True
        await it.step()
    return False


async def told(it: Scene) -> str:
    return next(c.message for c in (await it.upgrade()).status.conditions if c.type == "Ready")


async def test_the_others_go_ahead_and_the_status_says_who_holds_it_until_when() -> None:
    it = await scene()

    assert await until(it, "node-1")
    for _ in range(20):
        await it.step()

    assert await upgraded(it) == {"node-1"}
    assert await since(it)
    message = await told(it)
    assert "node-0 is held until 2026-01-01T01:00" in message
    assert "by pod default/web-0: checkpoint running" in message
    node = await it.kube.get(NODES, "node-0")
    assert not node["spec"].get("unschedulable")


async def test_after_its_time_it_holds_no_more_although_the_pod_is_another_one_by_then() -> None:
    it = await scene()
    assert await until(it, "node-1")
    await it.kube.delete(PODS.within("default"), "web-0")
    await it.fleet.add_pod("web-0", "node-0")
    await hold(it, "for ever")
    assert not await until(it, "node-0", steps=20)

    assert await until(it, "node-0")

    assert LIMIT <= it.now - START < LIMIT + timedelta(minutes=5)


async def test_while_it_is_held_its_pods_are_read_once_a_minute() -> None:
    it, read_at = await scene(), list[datetime]()
    assert await until(it, "node-1")
    listed = it.kube.list

    async def counted(resource: Resource, **selected: Any) -> list[Json]:
        read_at.extend([it.now] if (selected.get("fields") or {}).get("spec.nodeName") == "node-0" else [])
        return await listed(resource, **selected)

    with mock.patch.object(InMemoryKube, "list", staticmethod(counted)):
        for _ in range(60):
            await it.step()

    assert len(read_at) > 5
    assert min(b - a for a, b in pairwise(read_at)) >= timedelta(minutes=1)


async def test_it_goes_on_at_once_when_the_annotation_is_removed() -> None:
    it = await scene()
    assert await until(it, "node-1")

    await hold(it, None)

    assert await until(it, "node-0")
    assert it.now - START < timedelta(minutes=30)


@pytest.mark.parametrize(("why", "pod_hold"), [("checkpoint running", "0s"), ("false", None)])
async def test_what_holds_nothing(why: str, pod_hold: str | None) -> None:
    it = await scene(why=why, pod_hold=pod_hold)

    assert await until(it, "node-0", "node-1")

    assert it.now - START < timedelta(minutes=10)


async def since(it: Scene) -> str:
    annotations = (await it.kube.get(TASKS, "node-0"))["metadata"].get("annotations", {})
    return str(annotations.get("nodeupgrade.dev/held-since", ""))


async def test_another_rollout_begins_another_time() -> None:
    it = await scene()
    assert await until(it, "node-1")
    await it.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Abort"}})
    for _ in range(20):
        await it.step()
    before = await since(it)
    await it.apply("again")
    for _ in range(20):
        await it.step("again")

    assert before < await since(it)
    assert await upgraded(it) == {"node-1"}


async def test_a_plan_examines_it_all_the_same() -> None:
    it = await scene()
    await it.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Plan"}})
    for _ in range(30):
        await it.step()

    assert Reason.HELD_BY_POD.value not in await told(it)
