"""The operator is killed after every single write, once each; a new one finishes what the old one began."""

from __future__ import annotations

import pytest

from nodeupgrade.domain.rollout import plan
from nodeupgrade.engine.actuator import Actuator
from nodeupgrade.engine.agent_pod import AgentSettings
from nodeupgrade.ports.kube import UPGRADES, ConflictError, NotFoundError
from nodeupgrade.simulation.kube_fleet import Part
from tests.scenario.rollout.harness import IDLE_STEPS, NAMESPACE, Scene

PARTS: dict[str, dict[str, Part]] = {
    "both succeed": {},
    "the second is rolled back": {"node-1": Part.ROLL_BACK},
    "the first is refused": {"node-0": Part.REFUSE},
    "the agent cannot start": {"node-0": Part.CANNOT_PULL},
}


async def stage(parts: dict[str, Part], crash_at: int | None) -> Scene:
    scene = Scene(parts=parts, crash_at=crash_at)
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.apply()
    return scene


async def play(parts: dict[str, Part], crash_at: int | None, delete_after: int | None = None) -> Scene:
    scene = await stage(parts, crash_at)
    for _ in range(delete_after or 0):
        await scene.step()
    if delete_after is not None:
        await scene.kube.delete(UPGRADES, "to-1-33")
    await scene.finish()
    return scene


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
async def test_crash_after_every_write(parts: dict[str, Part]) -> None:
    expected = await play(parts, None)
    assert expected.writes > 10
    for crash_at in range(1, expected.writes + 1):
        scene = await play(parts, crash_at)
        assert "-- the operator dies and is started again" in scene.story, crash_at
        assert await scene.end_state() == await expected.end_state(), crash_at
        assert scene.highest_in_flight == 1, crash_at


@pytest.mark.parametrize("delete_after", range(2, 14))
async def test_deletion_at_any_moment_leaves_no_cordon_and_no_open_run(delete_after: int) -> None:
    scene = await play({}, None, delete_after)
    assert await scene.kube.list(UPGRADES) == []
    state = await scene.end_state()
    assert not any(node["unschedulable"] or node["ours"] for node in state["nodes"].values())
    assert {action for action, _ in state["tasks"].values()} <= {"Release"}, "a claim is given back, and no run is open"


@pytest.mark.parametrize("slept", [1, 4, 9, 14], ids=lambda slept: f"{slept} passes")
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
async def test_a_second_operator_with_stale_eyes_does_no_harm(parts: dict[str, Part], slept: int) -> None:
    """After each pass, somebody carries out what an earlier pass had seen: a leader that slept and woke up."""
    expected = await play(parts, None)
    scene = await stage(parts, None)
    agents = AgentSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
    seen, conflicts = [], 0
    while scene.idle < IDLE_STEPS:
        seen.append(await scene.operator.gather("to-1-33"))
        if await scene.step():
            break
        stale = seen[-1 - slept] if len(seen) > slept else seen[0]
        try:
            conflicts += not await Actuator(scene.kube, agents, stale.upgrade).apply(plan(stale, scene.now))
        except (ConflictError, NotFoundError):
            conflicts += 1
        await scene.observe()
    assert conflicts > 5
    assert await scene.end_state() == await expected.end_state()
    assert scene.highest_in_flight == 1
