"""The condition MaintenanceInProgress: on a Node in flight it is ours, from API servers 1.37 on, and only as long."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, UPGRADES, RejectedError, Resource
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

KIND = "MaintenanceInProgress"
NAME = "to-1-33"
FOREIGN = {"status": "True", "reason": "AdminRequested", "message": "disks are exchanged"}


async def scene(
    part: Part | None = None, *, version: str = "v1.37.0", kube_type: type[InMemoryKube] = InMemoryKube
) -> Scene:
    found = Scene(parts={} if part is None else {"node-0": part}, version=version, kube_type=kube_type)
    await found.fleet.add_node("node-0")
    await found.fleet.add_pod("web-0", "node-0")
    await found.apply()
    return found


async def condition(it: Scene) -> Json | None:
    conditions = (await it.kube.get(NODES, "node-0"))["status"]["conditions"]
    return next((each for each in conditions if each["type"] == KIND), None)


async def in_flight(it: Scene) -> bool:
    """Go on until the node is cordoned."""
    for _ in range(20):
        await it.step()
        if (await it.kube.get(NODES, "node-0"))["spec"].get("unschedulable"):
            return True
    return False


async def to_the_end(it: Scene) -> None:
    for _ in range(200):
        if await it.step():
            return


async def test_a_node_in_flight_says_so_and_only_as_long() -> None:
    it = await scene()
    assert await in_flight(it)

    told = await condition(it)

    assert told is not None
    assert {key: told[key] for key in ("status", "reason", "message")} == {
        "status": "True",
        "reason": "KubeletUpgrade",
        "message": "NodeUpgrade to-1-33 exchanges the kubelet in place; the pods run on",
    }
    await to_the_end(it)
    assert await condition(it) is None
    assert [c["type"] for c in (await it.kube.get(NODES, "node-0"))["status"]["conditions"]] == ["Ready"]
    assert (await it.upgrade()).status.counts.succeeded == 1


async def test_older_api_servers_are_told_nothing() -> None:
    it = await scene(version="v1.36.3")
    assert await in_flight(it)
    assert await condition(it) is None


@pytest.mark.parametrize("end", ["abort", "delete"])
async def test_it_goes_when_the_rollout_does(end: str) -> None:
    it = await scene()
    assert await in_flight(it)
    if end == "abort":
        await it.kube.merge(UPGRADES, NAME, {"spec": {"action": "Abort"}})
        await to_the_end(it)
    else:
        await it.kube.delete(UPGRADES, NAME)
        for _ in range(200):
            if not await it.kube.list(UPGRADES):
                break
            await it.step()

    assert await condition(it) is None


async def test_one_of_somebody_else_is_waited_for_and_left_alone() -> None:
    it = await scene()
    await it.kube.set_condition(NODES, "node-0", KIND, FOREIGN)

    assert not await in_flight(it)

    assert await condition(it) == {"type": KIND, **FOREIGN}


async def test_one_that_somebody_else_takes_over_is_theirs() -> None:
    it = await scene()
    assert await in_flight(it)
    await it.kube.set_condition(NODES, "node-0", KIND, FOREIGN)

    await to_the_end(it)

    told = await condition(it)
    assert told is not None
    assert told["reason"] == "AdminRequested"


async def test_what_is_left_of_it_is_swept() -> None:
    """A person uncordons the node meanwhile, so that nothing restores the cordon at the end."""
    it = await scene()
    assert await in_flight(it)
    await it.kube.merge(NODES, "node-0", {"spec": {"unschedulable": None}}, field_manager="kubectl-uncordon")
    await it.operator.sweep()
    assert await condition(it) is not None  # it is in flight all the same
    await to_the_end(it)

    await it.operator.sweep()

    assert await condition(it) is None


class Slow(InMemoryKube):
    """An API server that answers the write of a cordon after a minute."""

    async def merge(self, resource: Resource, name: str, patch: Json, **more: Any) -> Json:
        changed, clock = await super().merge(resource, name, patch, **more), self.clock
        if patch.get("spec", {}).get("unschedulable"):
            self.clock = lambda: clock() + timedelta(minutes=1)
        return changed


async def test_it_begins_once_the_node_is_cordoned() -> None:
    it = await scene(kube_type=Slow)
    began = it.now
    assert await in_flight(it)

    told = await condition(it)

    assert told is not None
    assert datetime.fromisoformat(told["lastTransitionTime"]) >= began + timedelta(minutes=1)


class Refusing(InMemoryKube):
    """An API server on which the operator has no right to write conditions."""

    async def set_condition(self, resource: Resource, name: str, *args: Any, **more: Any) -> Json:
        raise RejectedError("nodes/status is forbidden")


async def test_without_the_right_to_tell_nodes_are_upgraded_all_the_same() -> None:
    it = await scene(kube_type=Refusing)

    await to_the_end(it)

    assert (await it.upgrade()).status.counts.succeeded == 1
    assert await condition(it) is None
