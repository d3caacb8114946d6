"""Writes that the API server refuses or does not answer: they concern one node, are told, and are tried seldom."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.upgrade.status import Condition
from nodeupgrade.cluster.kube_api import EVENTS, NODES, TASKS, UPGRADES, ForbiddenError, RejectedError, UnavailableError
from nodeupgrade.fleet.actions import Cordon
from nodeupgrade.fleet.setbacks import LONGEST, SHORTEST, next_setback, retry_delay
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import START, Scene

QUOTA = (
    'pods "nodeupgrade-agent-node-0" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=0, limited: 0'
)
ERRORS = (ForbiddenError, RejectedError, UnavailableError)


async def stage(count: int = 3, **spec: Any) -> Scene:
    scene = Scene()
    for number in range(count):
        await scene.fleet.add_node(f"node-{number}")
        await scene.fleet.add_pod(f"web-{number}", f"node-{number}")
    await scene.apply(**{"strategy": {"maxConcurrent": 2, "failureThreshold": 9}, **spec})
    return scene


def refuse(scene: Scene, verb: str, name: str, error: Callable[[str], Exception] = ForbiddenError) -> list[datetime]:
    """Let one write be refused from now on; returns when it was tried."""
    tried: list[datetime] = []

    def deny(asked: str, about: str) -> None:
        if (asked, about) == (verb, name):
            tried.append(scene.now)
            raise error(QUOTA)

    scene.kube.before_write = deny
    return tried


async def impeded(scene: Scene) -> Condition | None:
    return next((c for c in (await scene.upgrade()).status.conditions if c.type == "Impeded"), None)


async def steps(scene: Scene, until: timedelta) -> None:
    while scene.now < START + until:
        await scene.step()


async def keep_looking(scene: Scene) -> None:
    while True:
        await scene.operator.reconcile("to-1-33")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("verb", "name", "reason"),
    [
        ("create", "nodeupgrade-agent-node-0", "AgentUnavailable"),
        ("delete", "nodeupgrade-agent-node-0", "WriteRefused"),
        ("merge", "node-0", "WriteRefused"),
    ],
)
async def test_the_others_go_on_and_people_are_told_what_the_api_server_says(
    error: Callable[[str], Exception], verb: str, name: str, reason: str
) -> None:
    scene = await stage()
    for _ in range(5 if verb == "merge" else 0):
        await scene.step()
    tried = refuse(scene, verb, name, error)
    await steps(scene, timedelta(minutes=2))
    versions = {node["metadata"]["name"]: node for node in await scene.kube.list(NODES)}
    for other in ("node-1", "node-2"):
        assert versions[other]["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.13"
        assert not versions[other]["spec"].get("unschedulable")
    told = await impeded(scene)
    assert told is not None
    assert (told.status, told.reason) == ("True", reason)
    assert QUOTA in told.message
    assert "node node-0" in told.message
    assert 2 <= len(tried) <= 8  # four of each kind
    events = [e for e in await scene.kube.list(EVENTS.within("default")) if QUOTA in e["message"]]
    assert ("NodeUpgrade", reason) in {(e["involvedObject"]["kind"], e["reason"]) for e in events}


@pytest.mark.parametrize("error", ERRORS)
async def test_it_is_tried_again_and_the_condition_ends(error: Callable[[str], Exception]) -> None:
    scene = await stage()
    refuse(scene, "create", "nodeupgrade-agent-node-0", error)
    await steps(scene, timedelta(minutes=1))
    scene.kube.before_write = lambda _verb, _name: None
    await scene.finish()
    told = await impeded(scene)
    assert (await scene.upgrade()).status.phase == "Succeeded"
    assert told is not None
    assert told.status == "False"


async def test_a_refused_claim_keeps_the_plan_waiting_and_nothing_is_touched() -> None:
    scene = await stage()
    tried = refuse(scene, "create", "node-1")
    await steps(scene, timedelta(minutes=5))
    told = await impeded(scene)
    assert told is not None
    assert told.reason == "WriteRefused"
    assert (await scene.upgrade()).status.phase == "Planning"
    assert await scene.in_flight() == ()
    assert len(tried) < 10
    scene.kube.before_write = lambda _verb, _name: None
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_an_api_server_that_does_not_answer_at_all_is_no_nodes_fault() -> None:
    scene = await stage()
    for _ in range(6):
        await scene.step()
    asked: list[tuple[str, str]] = []

    def silent(verb: str, name: str) -> None:
        asked.append((verb, name))
        raise UnavailableError("no answer")

    scene.kube.before_write = silent
    for _ in range(3):
        scene.now += timedelta(minutes=1)
        with pytest.raises(UnavailableError):
            await keep_looking(scene)
    assert len(asked) <= 3 * 4  # a write for each of two nodes, the status, and an event about it
    scene.kube.before_write = lambda _verb, _name: None
    await scene.finish()
    assert (await scene.upgrade()).status.phase == "Succeeded"


async def test_a_refused_release_does_not_hold_a_deleted_object() -> None:
    scene = await stage(2)
    for _ in range(3):
        await scene.step()
    await scene.kube.delete(UPGRADES, "to-1-33")
    tried = refuse(scene, "merge", "node-1")
    await steps(scene, timedelta(minutes=3))
    assert await scene.kube.list(UPGRADES) == []
    assert len(tried) < 10


def test_pauses_grow_and_have_an_end() -> None:
    assert [retry_delay(count) for count in (1, 2, 3)] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST]
    assert retry_delay(6) == retry_delay(10_000) == LONGEST
    first = next_setback(None, Cordon, "no", START)
    second = next_setback(first, Cordon, "no", START + SHORTEST)
    assert (second.since, second.count, second.again) == (START, 2, START + 3 * SHORTEST)


@pytest.mark.parametrize(("part", "outcome"), [(Part.LIE, "Failed"), (Part.SUCCEED, "Succeeded")])
async def test_a_node_side_that_lies_is_found_out(part: Part, outcome: str) -> None:
    """It reports success, but the API shows that a container was restarted."""
    scene = Scene(parts={"node-0": part})
    await scene.fleet.add_node("node-0")
    await scene.fleet.add_pod("web", "node-0")
    await scene.apply()
    await scene.finish()
    assert (await scene.kube.get(TASKS, "node-0"))["status"]["phase"] == "Succeeded"
    assert (await scene.end_state())["tasks"] == {"node-0": ("Release", outcome)}


async def test_a_new_operator_tells_nothing_anew_before_it_has_looked_at_the_nodes() -> None:
    scene = await stage(1)
    refuse(scene, "create", "nodeupgrade-agent-node-0")
    await steps(scene, timedelta(minutes=1))
    told, events = await impeded(scene), await scene.kube.list(EVENTS)
    assert told is not None
    assert told.status == "True"

    scene.operator = scene.new_operator()
    await scene.operator.rollouts.reconcile("to-1-33")  # as after a new term: before any node
    assert await impeded(scene) == told
    await scene.operator.reconcile("to-1-33")
    await scene.operator.reconcile("to-1-33")
    assert await impeded(scene) == told
    assert len(await scene.kube.list(EVENTS)) == len(events)

    scene.kube.before_write = lambda _verb, _about: None
    scene.operator = scene.new_operator()
    await scene.run()
    now = await impeded(scene)
    assert now is not None
    assert now.status == "False"
