"""When the next pass is due: at the end of a wait that is known, and sooner while a slot can be given away."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from nodeupgrade.engine.rollout.passes import LONGEST_REST_SECONDS, PassOptions, Result

from nodeupgrade.api.json import Json
from nodeupgrade.domain.rollout import planner
from nodeupgrade.domain.rollout.actions import Wait
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.gathering import look_at
from nodeupgrade.ports.kube import UnavailableError
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import ALLOWED, NAMESPACE, Scene

NAME = "to-1-33"
PASSES = 90


async def stage(nodes: int) -> Scene:
    scene = Scene()
    for number in range(nodes):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.install_guard()
    await scene.apply()
    return scene


async def test_a_pass_is_due_when_the_kubelet_has_been_listened_to() -> None:
    scene = await stage(1)
    for _ in range(PASSES):
        done: Result = await scene.operator.reconcile(NAME)
        if known := [wait.until for wait in done.actions if isinstance(wait, Wait) and wait.until is not None]:
            assert done.wait_over_in == (min(known) - scene.now).total_seconds() > 0
            return
        assert done.wait_over_in is None
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    raise AssertionError("nothing was waited for whose end is known")


async def test_a_rollout_is_due_sooner_once_a_slot_can_be_given_away() -> None:
    scene, seconds = await stage(2), 0.0
    agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=ALLOWED)
    operator = Passes(scene.kube, agents, pace=PassOptions(rest=1e9, clock=lambda: seconds))
    rests = list[float]()
    for _ in range(PASSES):
        done = await operator.reconcile(NAME)
        if not await scene.in_flight():
            seconds += LONGEST_REST_SECONDS
        elif done.whole_in is not None:
            rests.append(done.whole_in)
        if rests and rests[-1] < LONGEST_REST_SECONDS:
            break
        await scene.fleet.tick()
        scene.now += timedelta(seconds=1)
    assert set(rests[:-1]) == {LONGEST_REST_SECONDS}, "while the node is at work, nothing but it is planned"
    assert rests[-1] < LONGEST_REST_SECONDS
    assert (await scene.kube.get_task("node-0")).verdict is not None


async def test_what_was_decided_to_see_what_is_unread_is_not_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, notes, decisions = await stage(1), planner.Notes(), list[FleetSnapshot]()
    await scene.operator.reconcile(NAME)  # the finalizer
    fleet, decide = await scene.operator.gather(NAME), planner._decide

    def counted(fleet: FleetSnapshot, *others: Any) -> Any:
        decisions.append(fleet)
        return decide(fleet, *others)

    monkeypatch.setattr(planner, "_decide", counted)
    assert planner.unread(fleet, scene.now, notes) == ()
    planned = planner.plan(fleet, scene.now, notes)
    assert len(decisions) == 1
    for other, now in ((fleet, scene.now + timedelta(seconds=1)), (replace(fleet), scene.now + timedelta(seconds=1))):
        assert planner.plan(other, now, notes) == planner.plan(other, now)
    assert len(decisions) == 5
    assert planned == planner.plan(fleet, scene.now)


class Hanging(InMemoryKube):
    """Does not tell of the pods of one node, and never answers for the others."""

    broken_off = 0

    async def list_pods_on_node(self, node: str) -> list[Json]:
        if node == "node-0":
            raise UnavailableError("no answer")
        try:
            answer = asyncio.get_running_loop().create_future()
            return list[Json](await answer)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise


async def test_a_look_that_fails_ends_the_others() -> None:
    scene, kube = await stage(3), Hanging()
    fleet = await scene.operator.gather(NAME)
    with pytest.raises(UnavailableError):
        await look_at(kube, fleet, sorted(fleet.nodes), asyncio.Semaphore(3))
    await asyncio.sleep(0)
    assert kube.broken_off == 2
