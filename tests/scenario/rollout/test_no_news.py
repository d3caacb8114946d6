"""What others write is reported once, however it is written: a pass that has nothing new to report writes nothing."""

import pytest

from nodeupgrade.cluster.kube_api import NODES, UPGRADES
from nodeupgrade.controlplane.workers import requeue_after
from nodeupgrade.fleet.actions import Report
from tests.scenario.rollout.harness import Scene

MANY = ",".join(f"wave-{number:04}" for number in range(400))
LONG = "w" * 2000
ODD = "\u202ewave\x00\n\t, naïve, \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def waiting(**annotations: str) -> Scene:
    """Return a rollout that waits for its approval, with these annotations, and has reported what there is."""
    scene = Scene()
    for number in range(3):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(waves=[{"name": "canary", "size": 1}, {"name": "rest", "size": "100%", "approval": "Manual"}])
    for _ in range(40):
        await scene.step()
    written = {f"nodeupgrade.dev/{name}": value for name, value in annotations.items()}
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": written}})
    return scene


async def settled(scene: Scene) -> list[Report]:
    """Let ten passes go by; return what was reported, and check that the last ones wrote nothing."""
    reports = list[Report]()
    for _ in range(10):
        done = await scene.operator.reconcile("to-1-33")
        reports += [each for each in done.actions if isinstance(each, Report)]
    assert not done.changed, done.actions[:3]
    assert requeue_after(done) != 0.0
    return reports


UNKNOWN = {
    "many": MANY,
    "a long one": LONG,
    "two alike": f"{LONG},{LONG}x",
    "odd ones": ODD,
    "a short one": f"{LONG},x",
}


@pytest.mark.parametrize("names", UNKNOWN.values(), ids=UNKNOWN)
async def test_unknown_waves_are_told_in_one_event(names: str) -> None:
    scene = await waiting(approve=names)
    [report] = await settled(scene)
    assert report.reason == "UnknownWave"
    assert len(report.message) < 1000


async def test_another_unknown_wave_is_told_again() -> None:
    scene = await waiting(approve="rests")
    [report] = await settled(scene)
    assert report.message == "the spec is valid, but waves are approved that it does not have: rests; correct the name."
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": {"nodeupgrade.dev/approve": "rests,r"}}})
    assert len(await settled(scene)) == 1
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": {"nodeupgrade.dev/approve": "rests"}}})
    await settled(scene)


@pytest.mark.parametrize("value", [LONG, ODD, "  ", "\n", "'\"{}"])
@pytest.mark.parametrize("name", ["retry", "pause", "abandon", "approve", "created-by"])
async def test_any_annotation_of_the_rollout_is_worked_off(name: str, value: str) -> None:
    await settled(await waiting(**{name: value}))


@pytest.mark.parametrize("value", [LONG, ODD, "  ", "\n"])
@pytest.mark.parametrize("name", ["hold", "skip"])
async def test_any_annotation_of_a_node_is_worked_off(name: str, value: str) -> None:
    scene = await waiting()
    await scene.kube.merge(NODES, "node-2", {"metadata": {"annotations": {f"nodeupgrade.dev/{name}": value}}})
    await settled(scene)
