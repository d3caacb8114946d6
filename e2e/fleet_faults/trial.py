"""One trial: a rollout of a few nodes, two operators, faults, and what came of it. Everything follows from the seed."""

import asyncio
import contextlib
import functools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from e2e.fleet_faults.happenings import Happenings
from e2e.fleet_faults.oracle import Oracle
from e2e.fleet_faults.proxy import Proxy
from e2e.fleet_faults.replica import keep_alive, loop_time
from e2e.fleet_faults.weather import Fault, Weather
from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.kube_api import CONFIGMAPS, LEASES, PODS, UPGRADES, ConflictError
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator, Part
from tests.doubles.virtual_time import run

NAMESPACE = "nodeupgrade-system"
NAME = "rollout"
START = datetime(2026, 1, 1, tzinfo=UTC)
FOREIGN, UNSELECTED = "foreign", "unselected"
PARTS = (Part.SUCCEED, Part.SUCCEED, Part.SUCCEED, Part.ROLL_BACK, Part.REFUSE, Part.FLAP)
STORM = 240.0
"""Seconds after which no new faults happen."""
PATIENCE = timedelta(hours=4).total_seconds()
"""How long a rollout may take after that; outages of an hour and relists of a quarter of an hour included."""


@dataclass
class Outcome:
    """What came of a trial."""

    seed: int
    faults: tuple[Fault, ...]
    fenced: bool
    problems: list[str]
    happened: dict[Fault, int]
    seconds: float
    end: Json = field(default_factory=dict)


@dataclass
class Trial:
    """The cluster of a trial."""

    seed: int
    faults: frozenset[Fault]
    fenced: bool
    name: str = NAME
    namespace: str = NAMESPACE

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311 - a trial, not a secret
        self.parts = {f"node-{number}": chance.choice(PARTS) for number in range(chance.randint(2, 4))}
        self.budget = chance.randint(1, 2)
        self.lost = {name: chance.randint(0, 1) for name in self.parts if chance.random() < 0.2}
        self.guarded = chance.random() < 0.5
        self.weather = Weather(random.Random(self.seed + 1), self.faults)  # noqa: S311
        self.kube = InMemoryKube(clock=lambda: START + timedelta(seconds=loop_time()))
        self.nodes = FleetSimulator(self.kube, NAMESPACE, parts=self.parts, pods_lost=self.lost)
        self.oracle = Oracle(
            self.kube._objects, self.budget, self.fenced, frozenset({FOREIGN}), frozenset({UNSELECTED})
        )
        self.happenings = Happenings(self)

    def upgrade(self) -> Json:
        """The NodeUpgrade as a person has written it."""
        return {
            "apiVersion": UPGRADES.api_version,
            "kind": UPGRADES.kind,
            "metadata": {"name": NAME},
            "spec": {
                "version": "v1.33.13",
                "artifact": {"preStaged": {"linux-amd64": {"path": "/opt/kubelet", "sha256": "a" * 64}}},
                "nodes": {"selector": {"matchLabels": {"pool": "web"}}},
                "strategy": {"maxConcurrent": self.budget, "maxUnavailable": 6, "failureThreshold": 6},
                "timeouts": {"node": "6h"},
                "verify": {"settle": "10s"},
            },
        }

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def install(self) -> None:
        """What `kubectl apply -k` brings into the namespace."""
        wanted = [(LEASES, LEASE_NAME), *([(CONFIGMAPS, GUARD_NAME)] if self.guarded else [])]
        for kind, name in wanted:
            with contextlib.suppress(ConflictError):  # an operator has been faster
                await self.kube.create(kind.within(NAMESPACE), {"metadata": {"name": name}})

    async def play(self, expected: Json | None) -> Outcome:
        """Live through it."""
        await self.install()
        for name in self.parts:
            await self.nodes.add_node(name)
            await self.nodes.add_pod(f"web-on-{name}", name)
        await self.nodes.add_node(FOREIGN, overrides={"spec": {"unschedulable": True}})
        await self.nodes.add_node(UNSELECTED, overrides={"metadata": {"labels": {"pool": "db"}}})
        await self.kube.create(UPGRADES, self.upgrade())
        self.kube.after_write = self.oracle.look
        async with self._operators():
            await self._storm()
            await self._calm()
        end = self.oracle.end(self.happenings.excused, expected)
        return Outcome(
            self.seed, tuple(sorted(self.faults)), self.fenced, self.oracle.problems, self.weather.happened,
            loop_time(), end,
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def _operators(self) -> AsyncIterator[None]:
        chance = self.weather.chance
        replicas = [
            asyncio.ensure_future(keep_alive(name, self._proxy, lambda: chance.uniform(1, 30))) for name in "ab"
        ]
        nodes = asyncio.ensure_future(self._node_sides())
        try:
            yield
            for task in (*replicas, nodes):
                if task.done():
                    self.oracle.problems.append(f"a process has ended for good: {task.exception()!r}")
        finally:
            for task in (*replicas, nodes):
                task.cancel()
            await asyncio.gather(*replicas, nodes, return_exceptions=True)

    def _proxy(self) -> Proxy:
        return Proxy(self.kube, self.weather, NAMESPACE, self.fenced)

    async def _node_sides(self) -> None:
        """Every node does its part, whoever else is there."""
        while True:
            await self.nodes.tick()
            pods = await self.kube.list(PODS.within(NAMESPACE), labels=AGENT_LABELS)
            await asyncio.sleep(1 if pods else 4)

    async def _storm(self) -> None:
        while self.faults and loop_time() < STORM:
            await asyncio.sleep(self.weather.chance.uniform(2, 20))
            await self.happenings.one()

    async def _calm(self) -> None:
        """Faults stop, and what they had taken away comes back; then the rollout must end."""
        await self.happenings.mend()
        self.weather.stormy = False
        while loop_time() < STORM + PATIENCE:
            await asyncio.sleep(10)
            if await self._is_over():
                await asyncio.sleep(120 if self.faults else 10)  # whatever is still cleared away, or still comes late
                if await self._is_over():
                    return
        self.oracle.problems.append("P5: the rollout does not end")

    async def _is_over(self) -> bool:
        found = await self.kube.list(UPGRADES)
        ours = [parse_upgrade(body) for body in found]
        agents = await self.kube.list(PODS.within(NAMESPACE), labels=AGENT_LABELS)
        return bool(ours) and not agents and all(map(is_over, ours))


def is_over(upgrade: Upgrade) -> bool:
    """Report whether a rollout has ended, or only waits for people to remove cordons whose tasks are gone."""
    status = upgrade.status
    left = any(each.reason == Reason.CORDON_LEFT_BEHIND for each in status.failures)
    return (upgrade.finished or (left and not status.counts.pending)) and not status.in_flight


@functools.cache
def undisturbed(seed: int, fenced: bool) -> Json:
    """Return how the rollout of a trial ends without faults."""

    async def play() -> Outcome:
        random.seed(seed)
        return await Trial(seed, frozenset(), fenced).play(None)

    outcome = run(play())
    if outcome.problems:
        raise AssertionError(f"seed {seed}, without any fault: {outcome.problems}")
    return outcome.end


def try_out(seed: int, faults: frozenset[Fault] | None = None) -> Outcome:
    """Make one trial, after one without faults that shows how it should end."""
    chance = random.Random(seed + 2)  # noqa: S311
    chosen = frozenset(chance.sample(sorted(Fault), chance.randint(1, 6))) if faults is None else faults
    fenced = chance.random() < 0.5

    async def disturbed() -> Outcome:
        random.seed(seed)
        return await Trial(seed, chosen, fenced).play(expected)

    expected = undisturbed(seed, fenced)
    return run(disturbed())
