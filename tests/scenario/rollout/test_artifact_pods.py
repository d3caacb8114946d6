"""A kubelet in an image: another pod takes it out first, then the agent is created, and both go in the end."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.cluster.agent_pods import COMPONENT_LABEL, PodRole
from nodeupgrade.cluster.kube_api import PODS, TASKS
from nodeupgrade.fleet.actions import CreateAgent
from nodeupgrade.fleet.agents.manifests import ARTIFACT_CONTAINER, KEEPER_CONTAINER
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene

WHERE = PODS.within(NAMESPACE)
IMAGE: Json = {"image": {"ref": f"registry.example/kubelet@sha256:{'a' * 64}", "path": "/kubelet"}}
ARTIFACT, AGENT = "nodeupgrade-artifact-node-0", "nodeupgrade-agent-node-0"


async def pods(scene: Scene) -> dict[str, Json]:
    return {pod["metadata"]["name"]: pod for pod in await scene.kube.list(WHERE)}


async def scene_with_image(scene: Scene, **spec: Any) -> Scene:
    await scene.fleet.add_node("node-0")
    await scene.apply(artifact=IMAGE, **spec)
    return scene


async def phase(scene: Scene) -> str:
    """The phase that the node's task reports, if there is one."""
    tasks = await scene.kube.list(TASKS)
    return str(tasks[0].get("status", {}).get("phase")) if tasks else ""


async def until(scene: Scene, name: str) -> Json:
    """Step until there is a pod of this name."""
    for _ in range(30):
        if found := (await pods(scene)).get(name):
            return found
        await scene.step()
    raise AssertionError(scene.story)


@pytest.mark.parametrize("action", ["Rollout", "Plan"])
async def test_the_agent_comes_after_the_files_and_both_go_in_the_end(action: str) -> None:
    scene = await scene_with_image(Scene(), **({} if action == "Rollout" else {"action": action}))
    first = await until(scene, ARTIFACT)
    assert list(await pods(scene)) == [ARTIFACT], "no agent before the files are there"
    agent = await until(scene, AGENT)
    told = {entry["name"]: entry["value"] for entry in agent["spec"]["containers"][0]["env"]}
    assert told["ARTIFACT_POD"] == first["metadata"]["uid"]
    assert (await pods(scene))[ARTIFACT]["status"]["phase"] == "Running"
    await scene.finish()
    assert await pods(scene) == {}
    verdict = parse_task(await scene.kube.get(TASKS, "node-0")).verdict
    assert verdict is not None
    assert verdict.outcome == ("Succeeded" if action == "Rollout" else "Prechecked")


async def test_a_kubelet_that_is_no_image_needs_no_such_pod() -> None:
    scene = Scene()
    await scene.fleet.add_node("node-0")
    await scene.apply()
    while not await pods(scene):
        await scene.step()
    assert list(await pods(scene)) == [AGENT]


@pytest.mark.parametrize("write", range(1, 26))
async def test_an_operator_that_dies_after_any_write_leaves_none_and_makes_none_twice(write: int) -> None:
    scene = await scene_with_image(Scene(crash_at=write))
    await scene.finish()
    assert await pods(scene) == {}
    verdict = parse_task(await scene.kube.get(TASKS, "node-0")).verdict
    assert verdict is not None
    assert verdict.outcome == "Succeeded"


async def test_what_keeps_the_image_from_being_pulled_is_told_in_the_words_of_the_api() -> None:
    scene = await scene_with_image(Scene(parts={"node-0": Part.CANNOT_PULL}))
    await until(scene, ARTIFACT)
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image: not found"}
    status = {
        "phase": "Pending",
        "initContainerStatuses": [{"name": ARTIFACT_CONTAINER, "state": {"waiting": waiting}, "restartCount": 0}],
        "containerStatuses": [
            {"name": KEEPER_CONTAINER, "state": {"waiting": {"reason": "PodInitializing"}}, "restartCount": 0}
        ],
    }
    await scene.kube.replace_status(WHERE, ARTIFACT, status)
    scene.fleet.parts = {}
    told = [action for action in await scene.look("to-1-33") if action.reason == "ArtifactUnavailable"]
    assert "ImagePullBackOff: Back-off pulling image: not found" in told[0].message
    assert AGENT not in await pods(scene)


@pytest.mark.parametrize(("exit_code", "agents"), [(0, 1), (1, 0)])
async def test_the_agent_is_started_once_the_files_are_there_before_the_kubelet_reports_that_they_are_kept(
    exit_code: int, agents: int
) -> None:
    scene = await scene_with_image(Scene(parts={"node-0": Part.CANNOT_PULL}))
    await until(scene, ARTIFACT)
    copied = {"name": ARTIFACT_CONTAINER, "state": {"terminated": {"exitCode": exit_code}}, "restartCount": 0}
    starting = {"name": KEEPER_CONTAINER, "state": {"waiting": {"reason": "PodInitializing"}}, "restartCount": 0}
    status = {"phase": "Pending", "initContainerStatuses": [copied], "containerStatuses": [starting]}
    await scene.kube.replace_status(WHERE, ARTIFACT, status)
    scene.fleet.parts = {}
    created = [action for action in await scene.look("to-1-33") if isinstance(action, CreateAgent)]
    assert [action.role for action in created] == [PodRole.AGENT] * agents


async def test_it_is_given_up_and_cleared_away_if_it_cannot_be_pulled() -> None:
    scene = await scene_with_image(Scene(parts={"node-0": Part.CANNOT_PULL}))
    await scene.finish()
    assert await pods(scene) == {}
    assert not (await scene.node("node-0"))["spec"].get("unschedulable")
    verdict = parse_task(await scene.kube.get(TASKS, "node-0")).verdict
    assert verdict is not None
    assert verdict.outcome == "Refused"


async def test_a_pod_whose_files_are_gone_is_made_again_before_the_agent() -> None:
    """The kubelet empties the volumes of a pod that has ended."""
    scene = await scene_with_image(Scene())
    first = await until(scene, ARTIFACT)
    ended = {"name": KEEPER_CONTAINER, "containerID": "c://1", "state": {"terminated": {"exitCode": 137}}}
    await scene.kube.replace_status(WHERE, ARTIFACT, {"phase": "Failed", "containerStatuses": [ended]})
    agent = await until(scene, AGENT)
    told = {entry["name"]: entry["value"] for entry in agent["spec"]["containers"][0]["env"]}
    now = (await pods(scene))[ARTIFACT]["metadata"]["uid"]
    assert told["ARTIFACT_POD"] == now != first["metadata"]["uid"]
    await scene.finish()
    assert await pods(scene) == {}


async def test_the_pod_of_another_run_is_of_no_use() -> None:
    scene = await scene_with_image(Scene())
    await until(scene, ARTIFACT)
    stale = (await pods(scene))[ARTIFACT]
    await scene.kube.delete(WHERE, ARTIFACT, uid=stale["metadata"]["uid"])
    stale["metadata"]["labels"]["nodeupgrade.dev/run"] = "another"
    await scene.kube.create(WHERE, {k: v for k, v in stale.items() if k != "status"})
    agent = await until(scene, AGENT)
    told = {entry["name"]: entry["value"] for entry in agent["spec"]["containers"][0]["env"]}
    found = (await pods(scene))[ARTIFACT]
    assert told["ARTIFACT_POD"] == found["metadata"]["uid"]
    assert found["metadata"]["labels"]["nodeupgrade.dev/run"] != "another"
    assert found["metadata"]["labels"][COMPONENT_LABEL] == "artifact"
    await scene.finish()


async def test_what_is_left_over_is_swept_as_agents_are() -> None:
    scene = await scene_with_image(Scene())
    left = await until(scene, ARTIFACT)
    await scene.finish()
    await scene.kube.create(WHERE, {k: v for k, v in left.items() if k != "status"})
    await scene.kube.replace_status(WHERE, ARTIFACT, {"phase": "Failed"})
    await scene.operator.sweep()
    assert await pods(scene) == {}


async def test_an_agent_needs_no_image_once_it_has_handed_over() -> None:
    """What became of the node can be found out although its registry is gone."""
    scene = await scene_with_image(Scene())
    while await phase(scene) != "Running":
        await scene.step()
    for pod in (await pods(scene)).values():
        await scene.kube.delete(WHERE, pod["metadata"]["name"], uid=pod["metadata"]["uid"])
    agent = await until(scene, AGENT)
    assert "ARTIFACT_POD" not in {entry["name"] for entry in agent["spec"]["containers"][0]["env"]}
    assert ARTIFACT not in await pods(scene)
    await scene.finish()
    assert await pods(scene) == {}
