"""The start of a node is not answered: it may have taken effect, or take effect any time later."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import TASKS, ConflictError, Resource, UnavailableError
from nodeupgrade.fleet.controllers.snapshots import Snapshots
from nodeupgrade.fleet.snapshot import FleetSnapshot
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import Scene
from tests.scenario.rollout.test_takeover import at_work


@dataclass
class Slow(InMemoryKube):
    """Does not answer the first start of a node, which takes effect later."""

    late: list[Callable[[], Awaitable[Json]]] = field(default_factory=list)
    lost: int = 0

    async def merge(self, resource: Resource, name: str, patch: Json, **more: Any) -> Json:
        begins = resource == TASKS and patch.get("spec", {}).get("action") == "Upgrade"
        if not begins or self.lost:
            return await super().merge(resource, name, patch, **more)
        self.lost += 1
        self.late.append(lambda: InMemoryKube.merge(self, resource, name, patch, **more))
        raise UnavailableError("no answer")


async def most_at_work(steps: int) -> int:
    """Return how many nodes were at work at once, if the start takes effect after so many passes more."""
    scene, most = Scene(kube_type=Slow), 0
    kube = scene.kube
    assert isinstance(kube, Slow)
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(nodes={"names": ["node-0", "node-1"]})
    while not kube.late:
        await scene.step()
    for step in range(steps + 20):
        if step == steps:
            try:
                await kube.late.pop()()
            except ConflictError:
                assert steps > 0, "a start that nothing has overtaken takes effect"
        await scene.operator.reconcile("to-1-33")
        most = max(most, len(await at_work(scene)))
    return most


@pytest.mark.parametrize("settled", [True, False], ids=["as it is", "the control: nothing is settled"])
async def test_it_is_settled_before_the_slot_is_given_away(settled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not settled:
        remembered = Snapshots._as_remembered

        def without(self: Snapshots, *seen: Any) -> FleetSnapshot:
            return replace(remembered(self, *seen), starts_unanswered=frozenset())

        monkeypatch.setattr(Snapshots, "_as_remembered", without)
    most = {await most_at_work(steps) for steps in range(12)}
    assert most == ({1} if settled else {1, 2})
