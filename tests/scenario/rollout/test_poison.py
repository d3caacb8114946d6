"""One NodeUpgrade that this version stumbles over stops no other, and people are told."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import EVENTS, TASKS, UPGRADES
from nodeupgrade.controlplane import workers
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.controllers import event_keys, node_controller, queue, rollout_controller
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.decide import flight, planner
from nodeupgrade.fleet.snapshot import FleetSnapshot
from tests.doubles.kube import merged
from tests.doubles.passes import snapshots_of
from tests.scenario.rollout.harness import ALLOWED, NAMESPACE, Scene

NEWER = {"type": "Degraded", "status": "True", "reason": "OfANewerVersion", "message": "what a newer operator said"}
NEWER["lastTransitionTime"] = "2026-01-01T00:00:00Z"
EVIL, GOOD = "evil", "to-1-33"


@pytest.fixture(autouse=True)
def logged() -> Iterator[list[Any]]:
    with capture_logs() as lines:
        yield lines


async def stage() -> Scene:
    scene = Scene()
    for number in range(4):
        await scene.fleet.add_node(
            f"node-{number}", overrides={"metadata": {"labels": {"part": EVIL if number < 2 else GOOD}}}
        )
    for name in (EVIL, GOOD):
        await scene.apply(name, nodes={"selector": {"matchLabels": {"part": name}}})
    return scene


async def operate(scene: Scene, monkeypatch: pytest.MonkeyPatch, until: Callable[[], Any]) -> None:
    """Let the operator's workers work until something holds, each second of the cluster being a moment here."""
    for module, pause in (
        (workers, "VERIFYING_SECONDS"),
        (workers, "IN_FLIGHT_SECONDS"),
        (workers, "IDLE_SECONDS"),
        (event_keys, "IN_FLIGHT_SECONDS"),
        (queue, "LONGEST_BACKOFF_SECONDS"),
    ):
        monkeypatch.setattr(module, pause, 0.01)
    queues = event_keys.Queues()
    agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=ALLOWED)
    operator = Controllers(
        snapshots_of(scene.kube, agents), on_slot_unused=queues.rollouts.add, on_slots=queues.in_flight
    )
    working = [
        asyncio.create_task(workers.reconcile_for_ever(queues, operator, Metrics(), lambda _upgrade: None)),
        asyncio.create_task(operator.recorder.run()),
    ]
    try:
        async with asyncio.timeout(60):
            while not await until() and not any(task.done() for task in working):
                await scene.fleet.tick()
                scene.now += type(scene.idle_time)(seconds=1)
                await asyncio.sleep(0.005)
    finally:
        failed = [task.exception() for task in working if task.done()]
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
    assert failed == []


async def phase(scene: Scene, name: str) -> str:
    body = await scene.kube.get(UPGRADES, name)
    return str(body.get("status", {}).get("phase", ""))


async def conditions(scene: Scene, name: str) -> dict[str, Json]:
    body = await scene.kube.get(UPGRADES, name)
    return {each["type"]: each for each in body.get("status", {}).get("conditions", [])}


def ended(scene: Scene) -> Callable[[], Any]:
    async def it_has() -> bool:
        return await phase(scene, GOOD) == "Succeeded"

    return it_has


async def test_reasons_of_a_newer_operator_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a downgrade, with a spec that this version does not accept: it reports again what was reported."""
    scene = await stage()
    body = await scene.kube.get(UPGRADES, EVIL)
    await scene.kube.merge(UPGRADES, EVIL, {"spec": {"ofANewerVersion": 1, "version": "1"}})
    await scene.kube.replace_status(UPGRADES, EVIL, merged(body.get("status", {}), {"conditions": [NEWER]}))

    await operate(scene, monkeypatch, ended(scene))

    told = await conditions(scene, EVIL)
    assert told["Accepted"]["status"] == "False"
    assert told["Degraded"]["reason"] == "OfANewerVersion"
    assert told["Degraded"]["message"] == "what a newer operator said"


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), AttributeError("None has no x"), AssertionError()])
async def test_an_error_that_nobody_has_foreseen_is_one_rollouts(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await stage()

    def plan(fleet: FleetSnapshot, *others: Any) -> Any:
        if fleet.upgrade.name == EVIL:
            raise error
        return planner.plan(fleet, *others)

    monkeypatch.setattr(rollout_controller, "plan", plan)
    await operate(scene, monkeypatch, ended(scene))

    impeded = (await conditions(scene, EVIL))["Impeded"]
    assert (impeded["status"], impeded["reason"]) == ("True", "InternalError")
    assert type(error).__name__ in impeded["message"]
    events = [each for each in await scene.kube.list(EVENTS) if each["reason"] == "InternalError"]
    assert [each["involvedObject"]["name"] for each in events] == [EVIL]

    monkeypatch.setattr(rollout_controller, "plan", planner.plan)

    async def evil_ended() -> bool:
        return await phase(scene, EVIL) == "Succeeded"

    await operate(scene, monkeypatch, evil_ended)
    assert (await conditions(scene, EVIL))["Impeded"]["status"] == "False"


async def test_it_is_backed_off(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, failures = await stage(), Counter[str]()

    def plan(fleet: FleetSnapshot, *_others: object) -> Any:
        failures[fleet.upgrade.name] += 1
        raise ZeroDivisionError

    monkeypatch.setattr(rollout_controller, "plan", plan)
    rests = list[float]()

    def rest(low: float, high: float) -> float:
        rests.append(high)
        return low * 0.01

    async def often() -> bool:
        return min(failures[EVIL], failures[GOOD]) >= 4

    monkeypatch.setattr(random, "uniform", rest)
    await operate(scene, monkeypatch, often)
    assert len(rests) >= 8


async def test_an_error_that_nobody_has_foreseen_is_one_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await stage()

    def advance(fleet: FleetSnapshot, name: NodeName, now: datetime) -> Any:
        if name == "node-0":
            raise KeyError(name)
        return flight.advance(fleet, name, now)

    monkeypatch.setattr(node_controller, "advance", advance)
    await operate(scene, monkeypatch, ended(scene))

    async def told() -> bool:
        return (await conditions(scene, EVIL)).get("Impeded", {}).get("reason") == "InternalError"

    await operate(scene, monkeypatch, told)
    assert "node-0" in (await conditions(scene, EVIL))["Impeded"]["message"]
    assert (await scene.node("node-1"))["status"]["nodeInfo"]["kubeletVersion"] in {"v1.30.14", "v1.33.13"}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "OfANewerVersion", "reason": "OfANewerVersion"},
        {"steps": [{"name": "of-a-newer-version", "result": "OfANewerVersion"}]},
        {"ofANewerVersion": {"deep": [1]}},
        {"containers": "many"},
    ],
)
async def test_tasks_of_a_newer_version_stop_no_other_rollout(status: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await stage()

    async def claimed() -> bool:
        return any(task["metadata"]["name"] == "node-0" for task in await scene.kube.list(TASKS))

    await operate(scene, monkeypatch, claimed)
    body = await scene.kube.get(TASKS, "node-0")
    scene.kube._store((TASKS.plural, None, "node-0"), {**body, "status": status}, "status")
    await operate(scene, monkeypatch, ended(scene))


async def test_a_status_that_cannot_be_read_stops_no_other_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = await stage()
    body = await scene.kube.get(UPGRADES, EVIL)
    broken = {"counts": "many", "conditions": 5, "waves": [None]}
    scene.kube._store((UPGRADES.plural, None, EVIL), {**body, "status": broken}, "status")

    async def seen() -> bool:
        return bool(await phase(scene, GOOD))

    await operate(scene, monkeypatch, seen)
