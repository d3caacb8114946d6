"""The operator is killed after every single write, once each; a new one finishes what the old one began."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import UPGRADES, ConflictError, NotFoundError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.controllers.actuator import Actuator
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from tests.doubles.kube_fleet import Part
from tests.doubles.passes import decisions, snapshots_of
from tests.enumeration import tried
from tests.scenario.rollout.harness import IDLE, IDLE_STEPS, NAMESPACE, Scene


@dataclass(frozen=True, kw_only=True)
class Plot:
    """How a rollout of two nodes goes."""

    # what the nodes do; after the first of ``then`` they succeed
    parts: Mapping[str, Part] = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    then: tuple[Json, ...] = ()  # edits of the NodeUpgrade, each made when nothing more comes of what was there before
    guard: bool = False  # whether the readiness guard is installed
    patience: int = 3  # steps without anything new after which nothing more is expected
    idle_time: timedelta = IDLE  # how long such a step takes


def annotated(key: str, value: str) -> Json:
    return {"metadata": {"annotations": {f"nodeupgrade.dev/{key}": value}}}


PLOTS: dict[str, Plot] = {
    "both succeed": Plot(),
    "the second is rolled back": Plot(parts={"node-1": Part.ROLL_BACK}),
    "the first is refused": Plot(parts={"node-0": Part.REFUSE}),
    "the first is refused for now": Plot(
        parts={"node-0": Part.REFUSE_FOR_NOW}, patience=4, idle_time=IDLE_STEPS * IDLE
    ),
    "the agent cannot start": Plot(parts={"node-0": Part.CANNOT_PULL}, patience=IDLE_STEPS),
    "two waves, the second approved": Plot(
        spec={"waves": [{"name": "one", "size": 1}, {"name": "two", "size": 1, "approval": "Manual"}]},
        then=(annotated("approve", "two"),),
    ),
    "planned, then run": Plot(
        parts={"node-0": Part.REFUSE}, spec={"action": "Plan"}, then=({"spec": {"action": "Run"}},)
    ),
    "rolled back, then retried": Plot(parts={"node-0": Part.ROLL_BACK}, then=(annotated("retry", "again"),)),
    "guarded, the second is rolled back": Plot(parts={"node-1": Part.ROLL_BACK}, guard=True),
    "guarded, aborted in mid-flight": Plot(
        parts={"node-0": Part.HANG}, then=({"spec": {"action": "Abort"}},), guard=True
    ),
    "aborted in mid-flight": Plot(parts={"node-0": Part.HANG}, then=({"spec": {"action": "Abort"}},)),
}


async def stage(plot: Plot) -> Scene:
    scene = Scene(parts=dict(plot.parts), idle_time=plot.idle_time)
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    if plot.guard:
        await scene.install_guard()
    await scene.apply(**plot.spec)
    return scene


async def play(plot: Plot, scene: Scene, edits: tuple[Json, ...]) -> AsyncIterator[tuple[Json, ...]]:
    """Play to the end; yield which edits are still to come, before each part of the play."""
    yield edits
    await scene.finish(patience=plot.patience)
    for number, edit in enumerate(edits, start=1):
        await change(scene, plot, edit)
        yield edits[number:]
        await scene.finish(patience=plot.patience)


async def played(plot: Plot, scene: Scene, edits: tuple[Json, ...]) -> Scene:
    async for _ in play(plot, scene, edits):
        pass
    return scene


async def change(scene: Scene, plot: Plot, edit: Json) -> None:
    if scene.parts.get("node-0") is not Part.HANG:
        scene.parts.clear()
    scene.idle = 0
    await scene.kube.merge(UPGRADES, "to-1-33", edit)


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS.keys())
async def test_crash_after_every_write(plot: Plot) -> None:
    """What was written until then is copied, so that the way to there is gone only once."""
    expected, died = await stage(plot), list[tuple[Scene, tuple[Json, ...]]]()
    async for to_come in play(plot, expected, plot.then):
        expected.written = partial(lambda edits: died.append((expected.copy(), edits)), to_come)
    assert len(died) == expected.writes > 10
    wanted = await expected.end_state()
    for crash_at, (scene, to_come) in tried(enumerate(died, start=1), 12):
        await scene.go_on()
        await played(plot, scene, to_come)
        assert await scene.end_state() == wanted, crash_at
        assert scene.highest_in_flight == 1, crash_at


@pytest.mark.parametrize("delete_after", range(2, 14))
async def test_deletion_at_any_moment_leaves_no_cordon_and_no_open_run(delete_after: int) -> None:
    scene = await stage(Plot())
    for _ in range(delete_after):
        await scene.step()
    await scene.kube.delete(UPGRADES, "to-1-33")
    await scene.finish()
    assert await scene.kube.list(UPGRADES) == []
    state = await scene.end_state()
    assert not any(node["unschedulable"] or node["ours"] for node in state["nodes"].values())
    assert {action for action, _ in state["tasks"].values()} <= {"Release", "Wait"}, "no run is open"


async def undisturbed_end(name: str, known: dict[str, Json] = {}) -> Json:  # noqa: B006 - it is what is known
    """Play each plot once a process, and return how it ends."""
    if name not in known:
        plot = PLOTS[name]
        known[name] = await (await played(plot, await stage(plot), plot.then)).end_state()
    return known[name]


@pytest.mark.parametrize("slept", [1, 4, 9, 14], ids=lambda slept: f"{slept} passes")
@pytest.mark.parametrize("name", PLOTS)
async def test_a_second_operator_with_stale_eyes_does_no_harm(name: str, slept: int) -> None:
    """After each pass, somebody carries out what an earlier pass had seen: a leader that slept and woke up."""
    plot = PLOTS[name]
    scene = await stage(plot)
    own = Controllers(snapshots_of(scene.kube, AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")))
    seen, conflicts = [], 0
    for edit in (*plot.then, None):
        while scene.idle < plot.patience:
            seen.append(await scene.operator.gather("to-1-33"))
            if await scene.step():
                break
            stale = seen[-1 - slept] if len(seen) > slept else seen[0]
            actuator = Actuator(own.snapshots, stale, RolloutMemory(), own.recorder)
            for action in decisions(stale, scene.now):
                try:
                    conflicts += await actuator.carry_out(action) is None
                except (ConflictError, NotFoundError):
                    conflicts += 1
            await scene.observe()
        if edit is not None:
            await change(scene, plot, edit)
    assert conflicts > 5
    assert await scene.end_state() == await undisturbed_end(name)
    assert scene.highest_in_flight == 1
