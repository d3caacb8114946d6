"""An operator whose writes overlap, are slow, are refused or are cut off with it: budgets hold, and the rollout ends.

A trial is drawn from a number; ``TRIAL=n pytest …`` plays one again.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, RejectedError, Resource, UnavailableError
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.informer import Timing
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator, Part
from tests.doubles.passes import snapshots_of
from tests.scenario.rollout.harness import GUARD, NAMESPACE, START, upgrade_object

NAME = "to-1-33"
TRIALS = range(int(os.environ["TRIAL"]), int(os.environ["TRIAL"]) + 1) if "TRIAL" in os.environ else range(16)
NODES_OF_POOL, IN_FLIGHT, MAY_FAIL = 6, 3, 2
STEPS, LAST_STEPS = 120, 400


class Erratic(InMemoryKube):
    """Takes its time with every write, before and after it is carried out; refuses some, and loses some answers."""

    dice: random.Random
    calm = False

    async def _take_time(self) -> None:
        for _ in range(0 if self.calm else self.dice.choice([0, 0, 1, 3, 40])):
            await asyncio.sleep(0)

    async def _erratically(self, write: Callable[[], Awaitable[Any]], resource: Resource) -> Any:
        await self._take_time()
        if not self.calm and self.dice.random() < 0.04:
            raise self.dice.choice([RejectedError, UnavailableError])(f"cannot write {resource.plural} this time")
        done = await write()
        await self._take_time()
        if not self.calm and self.dice.random() < 0.03:
            raise UnavailableError(f"nobody heard of {resource.plural}")
        return done

    async def create(self, resource: Resource, body: Json) -> Json:
        made: Json = await self._erratically(lambda: InMemoryKube.create(self, resource, body), resource)
        return made

    async def merge(self, resource: Resource, name: str, patch: Json, **asked: Any) -> Json:
        done: Json = await self._erratically(lambda: InMemoryKube.merge(self, resource, name, patch, **asked), resource)
        return done

    async def replace_status(self, resource: Resource, name: str, status: Json, **asked: Any) -> Json:
        done: Json = await self._erratically(
            lambda: InMemoryKube.replace_status(self, resource, name, status, **asked), resource
        )
        return done

    async def delete(self, resource: Resource, name: str, **asked: Any) -> None:
        await self._erratically(lambda: InMemoryKube.delete(self, resource, name, **asked), resource)


class Operator:
    """One operator as it runs in a cluster: the rollout and each of its nodes are reconciled by themselves.

    Attributes:
        working: what is being reconciled: by node, or the rollout under None.
    """

    def __init__(self, kube: Erratic, clock: Callable[[], float]) -> None:
        self.dice = kube.dice
        fleet = InformedFleet(kube, NAMESPACE, read_upgrade, timing=Timing(patience=0.0, list_timeout=10.0))
        snapshots = snapshots_of(
            WriteThrough(kube, fleet),
            AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev"),
            source=fleet,
            recent_seconds=self.dice.choice([0.0, 3.0, 1e6]),
            clock=clock,
        )
        self.operator = Controllers(snapshots)
        self.following = asyncio.ensure_future(fleet.run())
        self.telling = asyncio.ensure_future(self.operator.recorder.run())
        self.working: dict[NodeName | None, asyncio.Future[Any]] = {}

    def start(self, nodes: Iterable[str]) -> None:
        """Begin to reconcile some of what nobody works on, in any order."""
        self.check()
        keys = [None, *map(NodeName, nodes)]
        for key in self.dice.sample(keys, len(keys)):
            if key not in self.working and self.dice.random() < 0.7:
                job = (
                    self.operator.rollouts.reconcile(NAME) if key is None else self.operator.nodes.reconcile(NAME, key)
                )
                self.working[key] = asyncio.ensure_future(job)

    def check(self) -> None:
        """It may fail as the API server does, and in no other way."""
        for key, job in [*self.working.items()]:
            if job.done():
                del self.working[key]
                error = job.exception()
                if error is not None and not isinstance(error, NodeUpgradeError):
                    raise error

    async def die(self) -> None:
        """Stop in the middle of whatever goes on."""
        jobs = [self.following, self.telling, *self.working.values()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


class Trial:
    """A fleet, its operator, and what is true at every moment."""

    def __init__(self, number: int) -> None:
        self.dice, self.now = random.Random(number), START  # noqa: S311 - no secret
        self.kube = Erratic(clock=lambda: self.now)
        self.kube.dice = self.dice
        names = [f"node-{n}" for n in range(NODES_OF_POOL)]
        bad = self.dice.sample(names, self.dice.randrange(3))
        self.parts = {name: self.dice.choice([Part.ROLL_BACK, Part.REFUSE, Part.HANG, Part.LIE]) for name in bad}
        self.nodes = FleetSimulator(self.kube, NAMESPACE, parts=self.parts)
        self.names, self.deleted, self.paused_with = names, set[str](), frozenset[str]()
        self.paused = False

    def operator(self) -> Operator:
        return Operator(self.kube, lambda: (self.now - START).total_seconds())  # noqa: PLW0108 - as it is then

    async def play(self) -> None:
        self.kube.calm = True
        await self.kube.create(GUARD, {"metadata": {"name": GUARD_NAME}})
        for name in [*self.names, "other"]:
            pool = {"metadata": {"labels": {"pool": "db" if name == "other" else "web"}}}
            await self.nodes.add_node(name, overrides=pool)
            await self.nodes.add_pod(f"web-on-{name}", name)
        strategy = {"maxConcurrent": IN_FLIGHT, "maxUnavailable": "100%", "failureThreshold": MAY_FAIL}
        await self.kube.create(UPGRADES, upgrade_object(NAME, strategy=strategy, timeouts={"node": "5m"}))
        self.kube.calm = False
        operators = [self.operator()]
        try:
            for _ in range(STEPS):
                await self.step(operators)
            await self.end(operators)
        finally:
            for operator in operators:
                await operator.die()

    async def step(self, operators: list[Operator]) -> None:
        self.now += timedelta(seconds=1)
        for operator in operators:
            operator.start(self.names)
        if self.dice.random() < 0.06:
            await operators[0].die()
            operators[0] = self.operator()
        await self.people_do_something()
        await self.nodes_do_something()
        for _ in range(self.dice.choice([1, 5, 30])):
            await asyncio.sleep(0)
        await self.holds()
        for operator in operators:
            operator.check()

    async def people_do_something(self) -> None:
        calm, self.kube.calm = self.kube.calm, True
        if self.dice.random() < 0.04:
            await self.pause(on=not self.paused)
        if self.dice.random() < 0.02 and len(self.deleted) < 2:
            name = self.dice.choice(self.names)
            await self.delete(name)
        self.kube.calm = calm

    async def pause(self, *, on: bool) -> None:
        self.paused = on
        patch = {"metadata": {"annotations": {"nodeupgrade.dev/pause": "true" if on else None}}}
        await self.kube.merge(UPGRADES, NAME, patch)
        self.paused_with = await self.slots()

    async def delete(self, name: str) -> None:
        """Delete a Node; the garbage collector deletes its task."""
        self.deleted.add(name)
        await self.kube.delete(NODES, name)
        await self.kube.delete(TASKS, name)

    async def nodes_do_something(self) -> None:
        calm, self.kube.calm = self.kube.calm, True
        await self.nodes.tick()
        self.kube.calm = calm

    async def slots(self) -> frozenset[str]:
        return frozenset(parse_upgrade(await self.kube.get(UPGRADES, NAME)).status.flying)

    async def holds(self) -> None:
        """P3: slots bound what is touched. P4: a pause holds. P6: only the pool's nodes are touched."""
        upgrade, slots = parse_upgrade(await self.kube.get(UPGRADES, NAME)), await self.slots()
        tasks = [parse_task(body) for body in await self.kube.list(TASKS)]
        nodes = await self.kube.list(NODES)
        ours = {n["metadata"]["name"] for n in nodes if CORDON_ANNOTATION in n["metadata"].get("annotations", {})}
        lost = {task.name for task in tasks if task.verdict and task.verdict.outcome == "RollbackFailed"}
        failed = [task for task in tasks if task.verdict and task.verdict.outcome in {"Failed", "RolledBack"}]
        assert len(slots) <= IN_FLIGHT
        assert ours | {task.name for task in tasks if task.open} <= slots | lost
        assert len(failed) < MAY_FAIL + IN_FLIGHT
        assert upgrade.finished or not self.paused or slots <= self.paused_with
        assert "other" not in ours | {task.name for task in tasks}

    async def end(self, operators: list[Operator]) -> None:
        """P5: once faults stop it ends, and leaves nothing behind."""
        self.kube.calm = True
        self.parts.clear()
        await self.pause(on=False)
        for _ in range(LAST_STEPS):
            self.now += timedelta(seconds=10)
            for operator in operators:
                operator.start(self.names)
            await self.nodes.tick()
            for _ in range(60):
                await asyncio.sleep(0)
            await self.holds()
            for operator in operators:
                operator.check()
            if parse_upgrade(await self.kube.get(UPGRADES, NAME)).finished:
                break
        upgrade = parse_upgrade(await self.kube.get(UPGRADES, NAME))
        stalled = {c.reason for c in upgrade.status.conditions if c.type == "Stalled" and c.status == "True"}
        assert upgrade.finished or stalled, upgrade.status
        assert upgrade.status.in_flight == ()
        nodes = await self.kube.list(NODES)
        assert not any(node["spec"].get("unschedulable") for node in nodes)
        await operators[0].operator.sweep.run()
        assert not (await self.kube.get(GUARD, GUARD_NAME)).get("data"), "a guard's entry is left behind"


@pytest.mark.parametrize("number", TRIALS)
async def test_whatever_overlaps(number: int) -> None:
    await Trial(number).play()
