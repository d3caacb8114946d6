"""A plan examines nodes of all waves; what it has begun counts for nothing once the action is Run."""

from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.task.run_id import kind_of
from nodeupgrade.api.values import RunKind
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

NAME = "to-1-33"
RUN = {"spec": {"action": "Run"}}


async def stage(
    nodes: int = 20, *, soak: str = "1h", action: str = "Plan", parts: dict[str, Part] | None = None
) -> Scene:
    """A rollout whose second wave needs an approval."""
    scene = Scene(parts=parts or {})
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number:02}")
    rest = {"name": "rest", "size": "100%", "approval": "Manual"}
    await scene.apply(action=action, waves=[{"name": "canary", "size": 1, "soak": soak}, rest])
    return scene


async def tasks(scene: Scene, action: str) -> dict[str, str]:
    """The waves of the nodes whose tasks have this action."""
    found = ((each["metadata"]["name"], each["spec"]) for each in await scene.kube.list(TASKS))
    return {name: spec["wave"] for name, spec in found if spec["action"] == action and "verdict" not in spec}


async def until_examined(scene: Scene, wave: str = "rest") -> str:
    """Go on until an agent examines a node of a wave."""
    for _ in range(60):
        await scene.step()
        examined = [name for name, its in (await tasks(scene, "Precheck")).items() if its == wave]
        reports = [(name, (await scene.kube.get(TASKS, name)).get("status")) for name in examined]
        if known := next((name for name, report in reports if report), None):
            return known
    pytest.fail(f"no node of wave {wave} is examined")


async def until_taken(scene: Scene) -> tuple[str, ...]:
    """Go on until slots are on record, and reconcile no node that holds one."""
    while not (slots := await scene.in_flight()):
        scene.operator.renew(NAME)
        await scene.operator.rollouts.reconcile(NAME)
    return slots


async def passes(scene: Scene, number: int) -> list[Any]:
    """Reconcile again and again while nothing happens on the nodes."""
    actions = list[Any]()
    for _ in range(number):
        actions += (await scene.operator.reconcile(NAME)).actions
        scene.now += timedelta(seconds=1)
    return actions


async def wave(scene: Scene, name: str) -> Any:
    return next(each for each in (await scene.upgrade()).status.waves if each.name == name)


@pytest.mark.parametrize("soak", ["0s", "1h"])
async def test_a_wave_of_which_a_node_is_examined_has_not_begun(soak: str) -> None:
    scene = await stage(soak=soak)
    await until_examined(scene)
    await scene.kube.merge(UPGRADES, NAME, RUN)
    await scene.run(passes=400)
    status, rest = (await scene.upgrade()).status, await wave(scene, "rest")
    assert (status.phase, status.counts.succeeded) == ("AwaitingApproval", 1)
    assert (rest.started_at, rest.approved_by, rest.approved_at) == (None, None, None)


async def test_neither_the_rollout_nor_a_wave_is_started_by_what_a_plan_has_begun() -> None:
    scene = await stage()
    node = await until_examined(scene)
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/pause": "true"}}, **RUN})
    await scene.operator.reconcile(NAME)
    status = (await scene.upgrade()).status
    assert node in status.flying
    assert (status.started_at, [each.started_at for each in status.waves]) == (None, [None, None])


async def test_a_wave_of_which_a_node_was_refused_for_now_by_the_plan_has_not_begun() -> None:
    scene = await stage(3, parts={"node-02": Part.REFUSE_FOR_NOW})
    while (await scene.upgrade()).status.phase != "Planned":
        await scene.step()
    scene.parts["node-02"] = Part.SUCCEED
    await scene.kube.merge(UPGRADES, NAME, RUN)
    await scene.run(passes=400)
    assert (await scene.upgrade()).status.phase == "AwaitingApproval"
    assert (await wave(scene, "rest")).started_at is None


async def test_a_slot_that_was_taken_to_examine_a_node_is_turned_back() -> None:
    scene = await stage(30)
    slots = await until_taken(scene)
    assert len(slots) > 1
    assert {kind_of(slot.run) for slot in (await scene.upgrade()).status.in_flight} == {RunKind.PRECHECK}
    scene.operator = scene.new_operator()
    await scene.kube.merge(UPGRADES, NAME, RUN)
    await passes(scene, 40)
    assert await tasks(scene, "Upgrade") == {"node-00": "canary"}  # as maxConcurrent and the approval of "rest" want it
    assert {kind_of(slot.run) for slot in (await scene.upgrade()).status.in_flight} == {RunKind.UPGRADE}
    assert (await wave(scene, "rest")).started_at is None


@pytest.mark.parametrize("action", ["Plan", "Run"])
async def test_the_run_that_goes_on_tells_what_its_slot_was_taken_for(action: str) -> None:
    """The status was edited, or restored from a backup."""
    scene = await stage(3, action=action)
    kind = RunKind.PRECHECK if action == "Plan" else RunKind.UPGRADE
    while not await tasks(scene, kind.value):
        await scene.step()
    status = (await scene.kube.get(UPGRADES, NAME))["status"]
    slots = [{**slot, "run": slot["run"].removesuffix("-plan") if action == "Plan" else f"{slot['run']}-plan"}
             for slot in status["inFlight"]]  # fmt: skip
    await scene.kube.replace_status(UPGRADES, NAME, {**status, "inFlight": slots})
    scene.operator = scene.new_operator()
    await passes(scene, 2)
    assert {kind_of(slot.run) for slot in (await scene.upgrade()).status.in_flight} == {kind}


async def test_an_examination_whose_task_is_lost_is_not_taken_up_as_an_upgrade() -> None:
    scene = await stage()
    node = await until_examined(scene)
    scene.operator = scene.new_operator()
    await scene.kube.merge(UPGRADES, NAME, RUN)
    await scene.kube.delete(TASKS, node)
    await passes(scene, 40)
    assert node not in await tasks(scene, "Upgrade")
    assert node not in await scene.in_flight()
    assert not (await scene.node(node))["spec"].get("unschedulable")


async def test_a_node_that_is_gone_with_the_task_of_its_examination_is_not_waited_for() -> None:
    scene = await stage()
    node = await until_examined(scene)
    await scene.kube.merge(UPGRADES, NAME, RUN)
    await scene.kube.delete(TASKS, node)
    await scene.kube.delete(NODES, node)
    await passes(scene, 5)
    status = (await scene.upgrade()).status
    assert node not in status.flying
    assert [each for each in status.failures if each.node == node] == []
