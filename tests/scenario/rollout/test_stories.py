"""Whole rollouts told as stories: one line per decision, with its reason. Reviewers read the difference.

``UPDATE_GOLDEN=1 pytest tests/scenario/rollout`` writes the stories anew.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nodeupgrade.domain.reasons import Reason
from nodeupgrade.ports.kube import NODES, TASKS, UPGRADES
from nodeupgrade.simulation.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene

STORIES = Path(__file__).parent / "stories"

Play = Callable[[], Awaitable[Scene]]


async def one_node_succeeds() -> Scene:
    scene = await stage(1)
    await scene.apply()
    await scene.run()
    return scene


async def two_nodes_one_after_the_other() -> Scene:
    scene = await stage(2)
    await scene.apply()
    await scene.run()
    assert scene.highest_in_flight == 1
    return scene


async def rollback_keeps_the_next_node_from_starting() -> Scene:
    scene = await stage(2, Scene(parts={"node-0": Part.ROLL_BACK}))
    await scene.apply()
    await scene.run()
    return scene


async def failed_rollback_leaves_the_node_cordoned() -> Scene:
    scene = await stage(2, Scene(parts={"node-0": Part.FAIL_TO_ROLL_BACK}))
    await scene.apply(strategy={"failureThreshold": 5})
    await scene.run()
    assert (await scene.node("node-0"))["spec"]["unschedulable"]
    return scene


async def node_side_refuses_and_the_rest_goes_on() -> Scene:
    scene = await stage(2, Scene(parts={"node-0": Part.REFUSE}))
    await scene.apply()
    await scene.run()
    return scene


async def restarted_container_is_seen_although_the_node_side_says_none() -> Scene:
    scene = await stage(1, Scene(parts={"node-0": Part.LIE}))
    await scene.apply()
    await scene.run()
    return scene


async def agent_pod_vanishes_and_is_replaced() -> Scene:
    scene = await stage(1, Scene(pods_lost={"node-0": 2}))
    await scene.apply()
    await scene.run()
    return scene


async def agent_pod_never_starts() -> Scene:
    scene = await stage(1, Scene(parts={"node-0": Part.CANNOT_PULL}))
    await scene.apply()
    await scene.run(passes=300)
    assert not (await scene.node("node-0"))["spec"].get("unschedulable")
    return scene


async def agents_that_die_without_a_word_are_given_up() -> Scene:
    scene = await stage(1, Scene(pods_lost={"node-0": 1000}))
    await scene.apply(timeouts={"node": "30s"})
    await scene.run()
    return scene


async def run_that_hangs_is_aborted() -> Scene:
    scene = await stage(1, Scene(parts={"node-0": Part.HANG}))
    await scene.apply(timeouts={"node": "30s"})
    await scene.run()
    return scene


async def deletion_in_mid_flight_finishes_the_node_and_starts_no_other() -> Scene:
    scene = await stage(2)
    await scene.apply()
    for _ in range(6):
        await scene.step()
    scene.story.append("-- somebody deletes the NodeUpgrade")
    await scene.kube.delete(UPGRADES, "to-1-33")
    await scene.run()
    assert await scene.kube.list(UPGRADES) == []
    return scene


async def deletion_between_slot_and_task_turns_back() -> Scene:
    scene = await stage(1)
    await scene.apply()
    for _ in range(3):
        await scene.step()
    scene.story.append("-- somebody deletes the NodeUpgrade")
    await scene.kube.delete(UPGRADES, "to-1-33")
    await scene.run()
    return scene


async def somebody_else_cordons_between_slot_and_cordon() -> Scene:
    scene = await stage(1)
    await scene.apply()
    for _ in range(2):
        await scene.step()
    scene.story.append("-- somebody cordons node-0")
    await scene.kube.merge(NODES, "node-0", {"spec": {"unschedulable": True}})
    await scene.run(passes=20)
    assert (await scene.node("node-0"))["spec"]["unschedulable"]
    return scene


async def cordoned_node_is_upgraded_as_it_is_when_asked_for() -> Scene:
    scene = Scene()
    await scene.fleet.add_node("node-0", overrides={"spec": {"unschedulable": True}})
    await scene.apply(nodes={"all": True, "cordoned": "Include"})
    await scene.run()
    assert (await scene.node("node-0"))["spec"]["unschedulable"]
    return scene


async def uncordoned_by_somebody_in_mid_flight_is_not_fought_over() -> Scene:
    scene = await stage(1)
    await scene.apply()
    for _ in range(5):
        await scene.step()
    scene.story.append("-- somebody uncordons node-0")
    await scene.kube.merge(NODES, "node-0", {"spec": {"unschedulable": None}})
    await scene.run()
    return scene


async def node_disappears_in_mid_flight() -> Scene:
    scene = await stage(2)
    await scene.apply()
    for _ in range(6):
        await scene.step()
    scene.story.append("-- node-0 is deleted")
    await scene.kube.delete(NODES, "node-0")
    await scene.run()
    return scene


async def pause_finishes_the_node_in_flight_and_starts_no_other() -> Scene:
    scene = await stage(2)
    await scene.apply()
    for _ in range(4):
        await scene.step()
    scene.story.append("-- somebody sets spec.action: Pause")
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Pause"}})
    await scene.run(passes=30)
    scene.story.append("-- somebody sets spec.action: Run")
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Run"}})
    await scene.run()
    return scene


async def way_back_claims_the_released_task() -> Scene:
    scene = await stage(1)
    await scene.apply()
    await scene.run()
    scene.story.append("-- a second NodeUpgrade asks for the way back")
    await scene.apply("back", version="v1.30.14", allowDowngrade=True)
    await scene.run("back")
    return scene


PLAYS: tuple[Play, ...] = (
    one_node_succeeds,
    two_nodes_one_after_the_other,
    rollback_keeps_the_next_node_from_starting,
    failed_rollback_leaves_the_node_cordoned,
    node_side_refuses_and_the_rest_goes_on,
    restarted_container_is_seen_although_the_node_side_says_none,
    agent_pod_vanishes_and_is_replaced,
    agent_pod_never_starts,
    agents_that_die_without_a_word_are_given_up,
    run_that_hangs_is_aborted,
    deletion_in_mid_flight_finishes_the_node_and_starts_no_other,
    deletion_between_slot_and_task_turns_back,
    somebody_else_cordons_between_slot_and_cordon,
    cordoned_node_is_upgraded_as_it_is_when_asked_for,
    uncordoned_by_somebody_in_mid_flight_is_not_fought_over,
    node_disappears_in_mid_flight,
    pause_finishes_the_node_in_flight_and_starts_no_other,
    way_back_claims_the_released_task,
)


async def stage(nodes: int, scene: Scene | None = None) -> Scene:
    scene = scene or Scene()
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    return scene


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
async def test_story(play: Play) -> None:
    scene = await play()
    told = "\n".join(scene.story) + "\n"
    golden = STORIES / f"{play.__name__}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(told)
    assert told == golden.read_text()


async def test_no_agent_pod_and_no_cordon_is_left_behind() -> None:
    scene = await one_node_succeeds()
    agents = [pod for (plural, where, _), pod in scene.kube._objects.items() if (plural, where) == ("pods", NAMESPACE)]
    assert agents == []
    assert (await scene.end_state())["nodes"] == {
        "node-0": {"version": "v1.33.13", "unschedulable": False, "ours": False}
    }


async def test_finished_rollout_writes_nothing_any_more() -> None:
    scene = await one_node_succeeds()
    before = scene.writes
    scene.now = scene.now.replace(year=scene.now.year + 1)
    for _ in range(3):
        await scene.step()
    assert scene.writes == before


async def test_a_node_that_another_rollout_takes_elsewhere_is_not_at_the_target() -> None:
    scene = await stage(1, Scene(parts={"node-0": Part.HANG}))
    await scene.apply()
    while not await scene.kube.list(TASKS):
        await scene.step()

    await scene.apply("stay", version="v1.30.14")
    for _ in range(3):
        await scene.operator.reconcile("stay")

    status = (await scene.upgrade("stay")).status
    assert [failure.reason for failure in status.failures] == [Reason.OVERLAP_CONFLICT]
    assert not (await scene.upgrade("stay")).finished
