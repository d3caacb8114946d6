"""What is true beside the stories, which are played in tests/scenario/cli/test_told_stories.py."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from nodeupgrade.fleet.decide.membership import view_rollout
from nodeupgrade.fleet.decide.node_state import Place
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import NAMESPACE, Scene


async def stage(nodes: int, scene: Scene | None = None) -> Scene:
    scene = scene or Scene()
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    return scene


async def test_no_agent_pod_and_no_cordon_is_left_behind() -> None:
    scene = await stage(1)
    await scene.apply()
    await scene.run()
    agents = [pod for (plural, where, _), pod in scene.kube._objects.items() if (plural, where) == ("pods", NAMESPACE)]
    assert agents == []
    assert (await scene.end_state())["nodes"] == {
        "node-0": {"version": "v1.33.13", "unschedulable": False, "ours": False}
    }


async def test_finished_rollout_writes_nothing_any_more() -> None:
    scene = await stage(1)
    await scene.apply()
    await scene.run()
    before = scene.writes
    scene.now = scene.now.replace(year=scene.now.year + 1)
    for _ in range(3):
        await scene.step()
    assert scene.writes == before


async def test_where_a_rollout_has_ended_no_second_look_is_announced() -> None:
    scene = await stage(2, Scene(parts={"node-0": Part.REFUSE_FOR_NOW, "node-1": Part.ROLL_BACK}))
    await scene.apply(strategy={"onThreshold": "Abort"})
    await scene.run()
    fleet = await scene.operator.gather("to-1-33")

    assert fleet.upgrade.finished
    assert fleet.upgrade.spec is not None
    member = view_rollout(fleet, fleet.upgrade.spec, scene.now).members[NodeName("node-0")]
    assert (member.place, member.again) == (Place.FINISHED, None)


async def test_an_aborted_rollout_announces_no_second_look() -> None:
    scene = await stage(1, Scene(parts={"node-0": Part.REFUSE_FOR_NOW}))
    await scene.apply()
    for _ in range(20):
        await scene.step()
    announced = (await scene.upgrade()).status.failures[0].message
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"action": "Abort"}})
    await scene.finish()

    assert "looked at again" in announced
    assert (await scene.upgrade()).status.phase == "Aborted"
    assert "looked at again" not in (await scene.upgrade()).status.failures[0].message


async def test_a_node_that_another_rollout_takes_elsewhere_is_not_at_the_target() -> None:
    scene = await stage(1, Scene(parts={"node-0": Part.HANG}))
    await scene.apply()
    while not await scene.kube.list(TASKS):
        await scene.step()

    await scene.apply("stay", version="v1.30.14")
    for _ in range(3):
        await scene.operator.reconcile("stay")

    status = (await scene.upgrade("stay")).status
    assert {c.reason for c in status.conditions if c.type == "Reconciling"} == {Reason.QUEUED}
    assert not (await scene.upgrade("stay")).finished


async def test_people_are_told_by_wave_and_not_by_node() -> None:
    scene = await stage(6, Scene(parts={"node-4": Part.ROLL_BACK}))
    waves = [{"name": "canary", "size": 2}, {"name": "rest", "size": "100%"}]
    await scene.apply(waves=waves, strategy={"maxConcurrent": 2, "failureThreshold": 2})
    await scene.finish(patience=3)
    events = await scene.events()
    assert [(reason, count) for kind, reason, count in events if kind == "NodeUpgrade"] == [
        ("KubeletDidNotStart", 2),
        ("Progressing", 1),
        ("WaveCompleted", 1),
        ("WaveCompleted", 1),
        ("WaveStarted", 1),
        ("WaveStarted", 1),
    ]
    on_nodes = [reason for kind, reason, _ in events if kind == "Node"]
    assert {reason: on_nodes.count(reason) for reason in on_nodes} == {
        "Cordoned": 6,
        "Uncordoned": 6,
        "Succeeded": 5,
        "KubeletDidNotStart": 1,
    }
