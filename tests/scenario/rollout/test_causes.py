"""What keeps nodes from making progress is told by its cause and with a remedy, from the first pass to the verdict."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import PODS, TASKS, UPGRADES
from nodeupgrade.fleet.actions import CreateAgent
from nodeupgrade.fleet.agents.manifests import AGENT_CONTAINER, ARTIFACT_CONTAINER, AgentViews
from nodeupgrade.fleet.setbacks import next_setback
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout import harness
from tests.scenario.rollout.harness import NAMESPACE, START, Scene

WHERE = PODS.within(NAMESPACE)
AGENT, ARTIFACT = "nodeupgrade-agent-node-0", "nodeupgrade-artifact-node-0"
NOT_FOUND = 'rpc error: code = NotFound desc = failed to resolve reference "registry.example/a:b": not found'
BACKS_OFF = 'Back-off pulling image "registry.example/a:b"'
NO_RIGHTS = 'error: the API server refuses to show the task: cannot get resource "nodeupgradetasks"'


async def stage(part: Part, **spec: Any) -> Scene:
    scene = Scene(parts={"node-0": part})
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("web-0", "node-0")
    await scene.apply(**spec)
    return scene


async def until_there_is(scene: Scene, name: str) -> Json:
    for _ in range(30):
        if found := [pod for pod in await scene.kube.list(WHERE) if pod["metadata"]["name"] == name]:
            return found[0]
        await scene.look("to-1-33")
    raise AssertionError(scene.story)


async def ready(scene: Scene, condition: ConditionType = ConditionType.READY) -> str:
    found = (await scene.upgrade()).status.condition(condition)
    return f"{found.reason}: {found.message}"


async def verdict(scene: Scene) -> RunVerdict:
    found = parse_task(await scene.kube.get(TASKS, "node-0")).verdict
    assert found is not None
    return found


def blocked(container: str, reason: str, message: str) -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    kind = "initContainerStatuses" if container == ARTIFACT_CONTAINER else "containerStatuses"
    return {"phase": "Pending", kind: [{"name": container, "state": state, "restartCount": 0}]}


async def test_a_kubelet_that_backs_off_has_said_before_why_it_cannot_pull() -> None:
    """Those before 1.32 do not say it again; the verdict tells it all the same."""
    scene = await stage(Part.CANNOT_PULL)
    await until_there_is(scene, AGENT)
    await scene.kube.replace_status(WHERE, AGENT, blocked(AGENT_CONTAINER, "ErrImagePull", NOT_FOUND))
    await scene.look("to-1-33")
    await scene.kube.replace_status(WHERE, AGENT, blocked(AGENT_CONTAINER, "ImagePullBackOff", BACKS_OFF))
    await scene.look("to-1-33")
    assert f"ErrImagePull: {NOT_FOUND}; push the image" in await ready(scene)
    await scene.finish()
    assert NOT_FOUND in (await verdict(scene)).message


async def test_what_a_pod_said_holds_for_that_pod_only() -> None:
    scene = await stage(Part.CANNOT_PULL)
    pod, views = await until_there_is(scene, AGENT), AgentViews()
    tried, waits = (
        blocked(AGENT_CONTAINER, *said) for said in (("ErrImagePull", NOT_FOUND), ("ImagePullBackOff", BACKS_OFF))
    )
    another = {**pod, "metadata": {**pod["metadata"], "uid": "another"}}
    told = [views({**body, "status": status}).blocked for body, status in ((pod, tried), (pod, waits), (pod, waits))]
    assert told == [f"ErrImagePull: {NOT_FOUND}"] * 3
    assert views({**another, "status": waits}).blocked == f"ImagePullBackOff: {BACKS_OFF}"
    assert views({**pod, "status": {"phase": "Running"}}).blocked == ""


@pytest.mark.parametrize(
    ("secret", "remedy"),
    [({}, "with a pullSecret if the registry asks"), ({"pullSecret": "key"}, "correct the Secret key")],
    ids=["none", "named"],
)
async def test_an_image_of_a_kubelet_may_want_a_secret(
    secret: dict[str, str], remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "ALLOWED", replace(harness.ALLOWED, pull_secrets=("key",)))
    image = {"ref": f"registry.example/kubelet@sha256:{'a' * 64}", "path": "/kubelet", **secret}
    scene = await stage(Part.CANNOT_PULL, artifact={"image": image})
    await until_there_is(scene, ARTIFACT)
    status = blocked(ARTIFACT_CONTAINER, "ErrImagePull", "no basic auth credentials")
    await scene.kube.replace_status(WHERE, ARTIFACT, status)
    await scene.look("to-1-33")
    told = await ready(scene)
    assert told.startswith(f"ArtifactUnavailable: artifact pod {ARTIFACT} cannot start: ErrImagePull: no basic auth")
    assert remedy in told


async def test_what_an_agent_says_last_is_told_until_another_one_is_heard() -> None:
    scene = await stage(Part.SILENT)
    await until_there_is(scene, AGENT)
    scene.now += timedelta(minutes=1)
    log = f'{{"event": "task_read_failed"}}\n{NO_RIGHTS}\n'
    ended = {"name": AGENT_CONTAINER, "containerID": "c://1", "restartCount": 0}
    ended |= {"state": {"terminated": {"exitCode": 1, "reason": "Error", "message": log}}}
    await scene.kube.replace_status(WHERE, AGENT, {"phase": "Failed", "containerStatuses": [ended]})
    for _ in range(4):
        await scene.step()
    assert f"reported nothing: {NO_RIGHTS}; apply manifests/agent-rbac.yaml" in await ready(scene)
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"version": "v1.18.20"}})  # which is rejected
    await scene.step()
    assert (await scene.upgrade()).status.condition(ConditionType.ACCEPTED).status is ConditionStatus.FALSE
    assert f"reported nothing: {NO_RIGHTS}; apply" in await ready(scene, ConditionType.IMPEDED)
    while scene.now < START + timedelta(minutes=30):
        await scene.step()
    assert f"nothing was begun; the last one ended: {NO_RIGHTS}" in (await verdict(scene)).message


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ('pods "a" is forbidden: violates PodSecurity "baseline:latest"', "label the operator's namespace"),
        ('pods "a" is forbidden: exceeded quota: small', "raise the quota"),
        ('failed calling webhook "policy.example": connection refused', "repair the webhook"),
        ('pods "a" is forbidden: error looking up service account a/b: not found', "apply manifests/agent-rbac.yaml"),
        ('pods is forbidden: User "operator" cannot create resource', "apply manifests/operator-rbac.yaml"),
        ("etcd is full", "let the webhook, policy, quota or role that the message names allow it"),
    ],
)
def test_a_refused_write_has_a_remedy_for_its_very_cause(words: str, remedy: str) -> None:
    message = next_setback(None, CreateAgent, words, START).finding(NodeName("node-0")).message
    assert message.startswith(f"node node-0: {words}; {remedy}")
    assert message.endswith(" (the write is retried automatically).")


async def test_a_name_without_a_node_is_told_while_others_are_upgraded() -> None:
    scene = await stage(Part.HANG, nodes={"names": ["node-0", "node-9"]})
    while not await scene.in_flight():
        await scene.step()
    told = await ready(scene)
    assert told.startswith("Progressing: 0 of 2 nodes run v1.33.13, 1 in flight; 1 node refused: node-9: ")
    assert told.endswith("there is no node node-9; correct the name in a new NodeUpgrade.")
