"""A rollout that has static pods replaced: told apart from restarts, and never as if nothing had been restarted."""

from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from tests.scenario.rollout.harness import Scene
from tests.scenario.rollout.test_guard import stage, until


async def test_static_pods_that_were_replaced_on_request_are_counted_and_zero_restart_is_false() -> None:
    scene = await stage(Scene(), kubelet={"staticPods": "Recreate"})
    await until(scene, "Verifying")
    body = await scene.kube.get(TASKS, "node-0")
    body["status"]["containers"] = {"baseline": 3, "unchanged": 2, "recreated": 1}
    await scene.kube.replace_status(TASKS, "node-0", body["status"])

    await scene.finish(patience=3)

    status = (await scene.kube.get(UPGRADES, "to-1-33"))["status"]
    told = next(each for each in status["conditions"] if each["type"] == "ZeroRestart")
    assert (told["status"], told["reason"]) == ("False", "StaticPodsRecreated")
    assert told["message"].startswith("1 container of static pods replaced, as kubelet.staticPods: Recreate asks")
    assert status["containers"]["recreated"] == 1
