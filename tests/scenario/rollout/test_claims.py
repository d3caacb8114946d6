"""The claims of a large fleet do not hold back its first nodes, unless it is not known who takes part."""

from typing import Any

import pytest

from nodeupgrade.cluster.kube_api import TASKS, RejectedError
from nodeupgrade.fleet.decide import claims
from tests.scenario.rollout.harness import Scene

FLEET, AT_ONCE = 9, 2


async def staged(monkeypatch: pytest.MonkeyPatch, **spec: Any) -> Scene:
    monkeypatch.setattr(claims, "WRITES_AT_ONCE", AT_ONCE)
    scene = Scene()
    for number in range(FLEET):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(**{"strategy": {"maxConcurrent": 3, "maxUnavailable": "100%"}, **spec})
    return scene


async def test_the_first_nodes_begin_while_the_last_ones_are_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await staged(monkeypatch)
    started: list[str] = []
    while len(claimed := await scene.kube.list(TASKS)) < FLEET:
        await scene.step()
        started += [node for node in await scene.in_flight() if node not in started]
        assert set(started) <= {task["metadata"]["name"] for task in claimed} | {
            task["metadata"]["name"] for task in await scene.kube.list(TASKS)
        }
    assert started == ["node-0", "node-1", "node-2"], "in the order of the upgrade, as many as may be"
    assert (await scene.upgrade()).status.planned_at is None
    await scene.finish()
    status = (await scene.upgrade()).status
    assert (status.phase, status.counts.succeeded) == ("Succeeded", FLEET)
    assert scene.highest_in_flight == 3


async def test_a_wave_that_is_claimed_begins_and_the_next_one_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waves = [{"name": "first", "size": 2}, {"name": "second", "size": "100%", "approval": "Manual"}]
    scene = await staged(monkeypatch, waves=waves)
    for _ in range(8):
        await scene.step()
        assert set(await scene.in_flight()) <= {"node-0", "node-1"}
    assert await scene.in_flight() != ()
    assert len(await scene.kube.list(TASKS)) == FLEET


async def test_nothing_begins_while_a_claim_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await staged(monkeypatch)

    def deny(verb: str, name: str) -> None:
        if (verb, name) == ("create", "node-1"):
            raise RejectedError("a webhook says no")

    scene.kube.before_write = deny
    for _ in range(12):
        await scene.step()
        assert await scene.in_flight() == ()
    scene.kube.before_write = lambda _verb, _name: None
    await scene.finish()
    assert (await scene.upgrade()).status.counts.succeeded == FLEET
