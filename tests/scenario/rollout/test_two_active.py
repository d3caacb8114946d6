"""Two operators that both believe to lead, one call to the API server at a time: the budget holds in every order."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from nodeupgrade.cluster.kube_api import NODES, Resource
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.controllers import snapshots
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import Scene
from tests.scenario.rollout.terms import FixedTerm
from tests.scenario.rollout.test_takeover import AGENTS, at_work, set_ready

CALLS = 9
"""How many calls the pass makes that starts a node."""


@dataclass(eq=False)
class Interrupted(TypedKube):
    """The API server; other things happen before some of the calls."""

    kube: InMemoryKube
    before: Callable[[], Awaitable[None]]
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    def utcnow(self) -> datetime:
        return self.kube.utcnow()

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> Any:
        return self.kube.pages(resource, labels=labels)

    def watch(self, *args: Any, **more: Any) -> Any:
        return self.kube.watch(*args, **more)

    async def get(self, *args: Any, **more: Any) -> Any:
        return await self._call("get", *args, **more)

    async def list(self, *args: Any, **more: Any) -> Any:
        return await self._call("list", *args, **more)

    async def create(self, *args: Any, **more: Any) -> Any:
        return await self._call("create", *args, **more)

    async def merge(self, *args: Any, **more: Any) -> Any:
        return await self._call("merge", *args, **more)

    async def replace_status(self, *args: Any, **more: Any) -> Any:
        return await self._call("replace_status", *args, **more)

    async def set_condition(self, *args: Any, **more: Any) -> Any:
        return await self._call("set_condition", *args, **more)

    async def delete(self, *args: Any, **more: Any) -> None:
        await self._call("delete", *args, **more)

    async def server_version(self) -> str:
        return await self.kube.server_version()

    async def _call(self, verb: str, *args: Any, **more: Any) -> Any:
        async with self._one:
            await self.before()
            return await getattr(self.kube, verb)(*args, **more)


async def about_to_start(scene: Scene, term: FixedTerm | None) -> None:
    """Let the first operator work until its next pass starts node-0."""
    for number in range(2):
        await scene.fleet.add_node(f"node-{number}")
    await scene.apply(nodes={"names": ["node-0", "node-1"]})
    while not (await scene.kube.get(NODES, "node-0"))["spec"].get("unschedulable"):
        await scene.step()
    if term is not None:
        await Passes(scene.kube, AGENTS, term=term).reconcile("to-1-33")  # it marks the rollout as its own


ORDERS = [(first, second) for first in range(CALLS) for second in range(first, CALLS)]
"""Before which call of the one the other takes over, and before which one it goes on for a while."""


async def highest(order: tuple[int, int], first: FixedTerm | None, second: FixedTerm | None) -> int:
    """Return how many nodes were at work at once."""
    scene = Scene()
    await about_to_start(scene, first)
    calls, most = 0, 0
    successor = Passes(scene.kube, AGENTS, term=second)

    async def interrupt() -> None:
        nonlocal calls
        if calls == order[0]:
            await set_ready(scene, "node-0", ready=False)  # it is to be turned back
            await successor.reconcile("to-1-33")
        for _ in range(6 if calls == order[1] else 0):
            await successor.reconcile("to-1-33")
        calls += 1

    former = Passes(Interrupted(scene.kube, interrupt), AGENTS, term=first)
    for _ in range(3):
        for each in (former, successor):
            with suppress(NodeUpgradeError):
                await each.reconcile("to-1-33")
            most = max(most, len(await at_work(scene)))
    return most


@pytest.mark.parametrize("control", ["", "without terms", "no mark is compared"])
async def test_a_slot_is_not_free_while_the_other_one_may_still_start_its_node(
    control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if control == "no mark is compared":
        monkeypatch.setattr(snapshots, "supersedes", lambda _mark, _epoch: False)
    overrun = set()
    for order in ORDERS:
        first, second = (None, None) if control == "without terms" else map(FixedTerm, ("1-a", "2-b"))
        if await highest(order, first, second) > 1:
            overrun.add(order)
    assert bool(overrun) is bool(control), sorted(overrun)
