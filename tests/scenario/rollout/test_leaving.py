"""A node that is excluded, or leaves the selector, is free for another rollout at once, unless its run has begun."""

from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, RejectedError
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

WAVES = [{"name": "canary", "size": 1}, {"name": "rest", "size": "100%", "approval": "Manual"}]


async def scene_of(*names: str, parts: dict[str, Part] | None = None, **spec: Any) -> Scene:
    """Return a rollout over these nodes that has done all it can do for now."""
    scene = Scene(parts=parts or {})
    for name in names:
        await scene.fleet.add_node(name)
    await scene.apply("first", **spec)
    await passes(scene, "first")
    return scene


async def passes(scene: Scene, *upgrades: str, number: int = 80) -> None:
    for _ in range(number):
        for name in upgrades:
            await scene.step(name)


async def leave(scene: Scene, name: str, how: str) -> None:
    if how == "excluded":
        await scene.kube.merge(UPGRADES, "first", {"spec": {"nodes": {"exclude": {"names": [name]}}}})
    else:
        await label(scene, name, "db")


async def label(scene: Scene, name: str, pool: str) -> None:
    await scene.kube.merge(NODES, name, {"metadata": {"labels": {"pool": pool}}})


async def phase(scene: Scene, name: str) -> str:
    return (await scene.upgrade(name)).status.phase


@pytest.mark.parametrize("how", ["excluded", "relabelled"])
@pytest.mark.parametrize("state", ["AwaitingApproval", "Paused", "Planned"])
async def test_a_waiting_node_that_leaves_is_free_for_another_rollout(how: str, state: str) -> None:
    scene = await scene_of("node-0", "node-1", "node-2", waves=WAVES, action="Plan" if state == "Planned" else "Run")
    if state == "Paused":
        await scene.kube.merge(UPGRADES, "first", {"spec": {"action": "Pause"}})
        await passes(scene, "first", number=5)
    assert await phase(scene, "first") == state

    await leave(scene, "node-2", how)
    await passes(scene, "first", number=5)
    assert (await scene.upgrade("first")).status.counts.total == 2
    await scene.apply("second", nodes={"names": ["node-2"]})
    await passes(scene, "first", "second")

    assert await phase(scene, "second") == "Succeeded"
    assert await phase(scene, "first") == state


async def test_a_plan_whose_node_was_examined_and_left_goes_on_without_it() -> None:
    scene = await scene_of("node-0", "node-1", action="Plan")
    await leave(scene, "node-1", "excluded")
    await passes(scene, "first", number=5)
    await scene.kube.merge(UPGRADES, "first", {"spec": {"action": "Run"}})
    await passes(scene, "first")

    status = (await scene.upgrade("first")).status
    assert (status.phase, status.progress) == ("Succeeded", "1/1")
    assert (await scene.node("node-1"))["status"]["nodeInfo"]["kubeletVersion"] == "v1.30.14"


async def test_rollouts_whose_pools_exchange_a_node_do_not_wait_for_each_other() -> None:
    scene, pools = Scene(idle_time=timedelta(minutes=5)), ("web", "db")
    for name in ("web-0", "web-1", "db-0", "db-1"):
        await scene.fleet.add_node(name)
        await label(scene, name, name.partition("-")[0])
    for pool in pools:
        nodes = {"selector": {"matchLabels": {"pool": pool}}}
        await scene.apply(f"to-{pool}", nodes=nodes, windows=[{"start": "0 22 * * *", "duration": "6h"}])
    await passes(scene, "to-web", "to-db", number=10)
    await label(scene, "web-1", "db")
    await label(scene, "db-1", "web")

    end = scene.now + timedelta(days=2)
    while scene.now < end:
        await passes(scene, "to-web", "to-db", number=1)
    for pool in pools:
        status = (await scene.upgrade(f"to-{pool}")).status
        assert (status.phase, status.skips) == ("Succeeded", {"NotInPlan": 1})


@pytest.mark.parametrize("membership", ["Snapshot", "Continuous"])
async def test_a_node_that_returns_takes_part_again(membership: str) -> None:
    nodes = {"selector": {"matchLabels": {"pool": "web"}}, "membership": membership}
    scene = await scene_of("node-0", "node-1", "node-2", waves=WAVES, nodes=nodes)
    await label(scene, "node-1", "db")
    await passes(scene, "first", number=5)
    assert (await scene.upgrade("first")).status.counts.total == 2
    await label(scene, "node-1", "web")
    await scene.kube.merge(UPGRADES, "first", {"spec": {"approvedWaves": ["rest"]}})
    await passes(scene, "first")

    status = (await scene.upgrade("first")).status
    assert (status.phase, status.counts.succeeded) == ("Succeeded", 3)


@pytest.mark.parametrize("part", [Part.SUCCEED, Part.FAIL_TO_ROLL_BACK])
@pytest.mark.parametrize("how", ["excluded", "relabelled"])
async def test_a_run_that_has_begun_keeps_its_node(how: str, part: Part) -> None:
    scene = Scene(parts={"node-0": part})
    await scene.fleet.add_node("node-0")
    await scene.apply("first")
    while not (await scene.kube.list(TASKS) and (await scene.kube.get(TASKS, "node-0")).get("status")):
        await scene.step("first")
    await leave(scene, "node-0", how)
    await scene.apply("second", version="v1.32.13", nodes={"names": ["node-0"]})
    for _ in range(60):
        await scene.step("first")
        await scene.step("second")
        first = (await scene.upgrade("first")).status
        others = (await scene.upgrade("second")).status.in_flight
        assert not (first.in_flight and others)
        assert not (part is Part.FAIL_TO_ROLL_BACK and others), "a person must repair the node first"
    assert first.counts.total == 1


async def test_a_node_that_cannot_be_read_keeps_its_claim() -> None:
    scene = await scene_of("node-0", "node-1", waves=WAVES)
    await scene.kube.merge(NODES, "node-1", {"metadata": {"labels": {"pool": "db"}}, "spec": {"taints": "damaged"}})
    await passes(scene, "first", number=5)

    assert (await scene.kube.get(TASKS, "node-1"))["spec"]["action"] == "Wait"


async def test_a_release_that_is_refused_keeps_no_other_node_waiting() -> None:
    scene = await scene_of("node-0", "node-1", "node-2", waves=WAVES)
    await leave(scene, "node-2", "excluded")
    refused = list[str]()

    def deny(verb: str, name: str) -> None:
        if (verb, name) == ("merge", "node-2"):
            refused.append(name)
            raise RejectedError("a webhook says no")

    scene.kube.before_write = deny
    await scene.kube.merge(UPGRADES, "first", {"spec": {"approvedWaves": ["rest"]}})
    await passes(scene, "first")
    assert refused
    assert await phase(scene, "first") == "Succeeded"


@pytest.mark.parametrize("part", [Part.REFUSE, Part.REFUSE_FOR_NOW, Part.SUCCEED])
async def test_a_node_of_a_plan_that_cannot_be_read_is_told_and_not_passed_over(part: Part) -> None:
    scene = await scene_of("node-0", "node-1", parts={"node-1": part}, action="Plan")
    await scene.kube.merge(NODES, "node-1", {"spec": {"taints": "damaged"}})
    await passes(scene, "first", number=5)
    await scene.kube.merge(UPGRADES, "first", {"spec": {"action": "Run"}})
    await passes(scene, "first")

    status = (await scene.upgrade("first")).status
    assert (status.phase, status.progress) == ("Stalled", "1/2")
    assert [(each.node, each.reason) for each in status.failures] == [("node-1", "ObjectUnreadable")]
