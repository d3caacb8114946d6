"""Agents that serve no run are deleted; those that serve one never are."""

from datetime import timedelta

import pytest

from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.cluster.kube_api import PODS, TASKS
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, agent_pod
from nodeupgrade.fleet.agents.stale_agents import UNDOUBTED
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene

AGENTS = PODS.within(NAMESPACE)
SETTINGS = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")


async def agents(scene: Scene) -> list[str]:
    return [pod["metadata"]["name"] for pod in await scene.kube.list(AGENTS)]


@pytest.mark.parametrize("started", [True, False], ids=["it ends by itself", "it never starts"])
async def test_what_a_former_leader_creates_after_the_run_is_deleted(started: bool) -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.finish()
    assert await agents(scene) == []
    task = parse_task(await scene.kube.get(TASKS, "node-0"))
    await scene.kube.create(AGENTS, agent_pod(task, SETTINGS))
    if started:
        await scene.fleet.tick()
        await scene.fleet.tick()
    else:
        await scene.operator.sweep()
        assert await agents(scene) != [], "it may be starting yet"
        scene.now += UNDOUBTED + timedelta(seconds=1)
    await scene.operator.sweep()
    assert await agents(scene) == []


async def test_an_agent_whose_run_was_just_judged_is_left_to_its_rollout() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    while not await agents(scene):
        await scene.step()
    while parse_task(await scene.kube.get(TASKS, "node-0")).verdict is None:
        await scene.step()
    before = await agents(scene)
    assert before == ["nodeupgrade-agent-node-0"]
    await scene.operator.sweep()
    assert await agents(scene) == before
    scene.now += UNDOUBTED + timedelta(seconds=1)
    await scene.operator.sweep()
    assert await agents(scene) == [], "its rollout has not done so"


async def test_an_agent_of_a_task_that_asks_for_nothing_any_more_is_deleted() -> None:
    scene = Scene(parts={"node-0": Part.HANG})
    await scene.fleet.add_node("node-0")
    await scene.apply(timeouts={"node": "5h"})
    while not await agents(scene):
        await scene.step()
    await scene.kube.merge(TASKS, "node-0", {"spec": {"action": TaskAction.WAIT.value}})
    await scene.operator.sweep()
    assert await agents(scene) != [], "it may be starting yet"
    scene.now += UNDOUBTED + timedelta(seconds=1)
    await scene.operator.sweep()
    assert await agents(scene) == []


async def test_an_agent_that_serves_a_run_stays_however_old_it_is() -> None:
    scene = Scene(parts={"node-0": Part.HANG})
    await scene.fleet.add_node("node-0")
    await scene.apply(timeouts={"node": "5h"})
    while not await agents(scene):
        await scene.step()
    scene.now += 2 * UNDOUBTED
    await scene.operator.sweep()
    assert await agents(scene) == ["nodeupgrade-agent-node-0"]
