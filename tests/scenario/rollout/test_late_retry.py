"""A retry of a rollout that has ended, and whose spec is not allowed any more: it waits, and people are told."""

from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction, UpgradeRef
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.cluster.kube_api import EVENTS, NODES, TASKS, UPGRADES
from nodeupgrade.fleet.actions import Admit, Claim, Refuse, Reopen
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.sources.allowlist import Allowed
from tests.doubles.kube_fleet import Part
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, Scene

NAME = "to-1-33"


async def retry(scene: Scene, token: str) -> None:
    patch = {"metadata": {"annotations": {"nodeupgrade.dev/retry": token}}}
    await scene.kube.merge(UPGRADES, NAME, patch)
    for _ in range(20):
        await scene.step()


def operator(scene: Scene, allowed: Allowed) -> Passes:
    return Passes(scene.kube, AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=allowed))


async def test_it_is_told_and_carried_out_once_it_is_allowed() -> None:
    scene = Scene(parts={"node-0": Part.ROLL_BACK})
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.finish()
    assert (await scene.upgrade()).finished
    scene.parts.clear()

    scene.operator = operator(scene, Allowed(paths=()))
    for token in ("first", "second"):
        await retry(scene, token)
        status = (await scene.upgrade()).status
        told = status.condition(ConditionType.ACCEPTED)
        assert (told.status, told.reason) == (ConditionStatus.FALSE, "NotAllowed")
        assert told.message.startswith(f"retry {token} waits")
        assert (status.phase, status.last_handled_retry) == ("Failed", "")
        events = await scene.kube.list(EVENTS.within("default"))
        assert [e["count"] for e in events if e["message"].startswith(f"retry {token} waits")] == [1]

    scene.operator = operator(scene, Allowed())
    await retry(scene, "second")
    await scene.finish()
    status = (await scene.upgrade()).status
    assert (status.phase, status.last_handled_retry) == ("Succeeded", "second")
    assert status.holds(ConditionType.ACCEPTED)


async def test_a_node_that_another_rollout_has_by_now_is_waited_for() -> None:
    """Its task is not taken from the other one, in whose hands its kubelet may be down at this moment."""
    scene = Scene(parts={"node-0": Part.ROLL_BACK})
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.finish()
    fleet = await scene.operator.gather(NAME)
    task = fleet.tasks[NodeName("node-0")]
    other = UpgradeRef(name="other", uid="uid-other", generation=1)
    claimed = replace(task.spec, upgrade_ref=other, verdict=None, history=task.past_runs(""))
    spec = replace(claimed, action=TaskAction.UPGRADE, run_id=RunId("other-1"))
    held = replace(
        fleet,
        tasks={task.name: replace(task, spec=spec)},
        active_upgrades=frozenset({other.uid, fleet.upgrade.uid}),
        upgrade=replace(fleet.upgrade, retry="again"),
    )

    actions = plan(held, scene.kube.utcnow()).actions

    assert [action for action in actions if isinstance(action, Claim | Reopen | Admit)] == []
    assert [action.reason for action in actions if isinstance(action, Refuse)] == [Reason.OVERLAP_CONFLICT]


async def test_it_is_upgraded_once_the_other_rollout_has_ended() -> None:
    scene = Scene(parts={"node-0": Part.ROLL_BACK})
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.finish()
    scene.parts.clear()
    await scene.apply("other", waves=[{"name": "all", "size": "100%", "approval": "Manual"}])
    for _ in range(5):
        await scene.step("other")
    await retry(scene, "again")
    status = (await scene.upgrade()).status
    assert (status.phase, status.last_handled_retry) == ("Stalled", "again")

    await scene.kube.merge(UPGRADES, "other", {"spec": {"action": "Abort"}})
    await scene.finish("other")
    await scene.finish()
    assert (await scene.upgrade()).status.progress == "1/1"
    assert (await scene.node("node-0"))["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.13"


async def test_a_failure_stays_on_record_if_its_slot_is_freed_as_a_retry_is_handled() -> None:
    """The node was in flight when the retry was asked for, so it is not retried, even if its task is gone by then."""
    scene = Scene(parts={"node-0": Part.ROLL_BACK})
    for name in ("node-0", "node-1"):
        await scene.fleet.add_node(name)
    await scene.apply()
    released = False
    while not released:
        await scene.step()
        task = (await scene.operator.gather(NAME)).tasks.get(NodeName("node-0"))
        released = task is not None and task.verdict is not None and task.spec.action is TaskAction.RELEASE
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {"nodeupgrade.dev/retry": "again"}}})
    assert (await scene.upgrade()).status.flying == ("node-0",)

    await scene.step()

    status = (await scene.upgrade()).status
    assert (status.in_flight, status.last_handled_retry) == ((), "again")
    assert [(each.node, each.outcome) for each in status.failures] == [("node-0", Verdict.ROLLED_BACK)]

    await scene.kube.delete(TASKS, "node-0")
    await scene.kube.delete(NODES, "node-0")
    await scene.finish()

    status = (await scene.upgrade()).status
    assert (status.failed, status.counts.succeeded, status.counts.pending) == (1, 0, 1)
