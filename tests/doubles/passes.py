"""An operator without queues: whoever tests it says when, and everything is done once at a time."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.inputs.live_fleet import LiveFleet
from nodeupgrade.cluster.kube_api import UPGRADES, NotFoundError
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.actions import FreeSlot, NodeAction, Wait
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import FleetObjects, FleetSource
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.controllers.snapshots import Snapshots, Term
from nodeupgrade.fleet.decide.flight import advance, needs_pods
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.health.checks import HealthReading
from nodeupgrade.fleet.health.evaluation import HealthSource
from nodeupgrade.fleet.snapshot import FleetSnapshot


async def flushed(recorder: EventRecorder) -> None:
    """Emit what is waiting, where nobody runs it."""
    while not recorder._waiting.empty():
        await recorder._kube.emit_event(recorder._waiting.get_nowait())


class NoHealth(HealthSource):
    """Evaluates nothing, so that no rollout with health checks starts a node."""

    def readings(self, upgrade: Upgrade) -> Mapping[str, HealthReading]:
        return {}

    def forget(self, name: str) -> None:
        pass


def snapshots_of(
    kube: TypedKube,
    agents: AgentPodSettings,
    *,
    operator_node: str | None = None,
    source: FleetSource | None = None,
    health: HealthSource | None = None,
    term: Term | None = None,
    recent_seconds: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
) -> Snapshots:
    """Return snapshots that are read anew each time, from live lists; nothing is known of health checks."""
    return Snapshots(
        kube,
        agents,
        source or LiveFleet(kube, agents.namespace, read_upgrade),
        GuardWriter(kube, agents.namespace),
        health or NoHealth(),
        operator_node=None if operator_node is None else NodeName(operator_node),
        term=term,
        recent_seconds=recent_seconds,
        clock=clock,
    )


class Passes:
    """Both controllers of one operator. A pass reconciles every node in flight once, then the rollout.

    Args:
        kube, agents, operator_node, health, term: See ``snapshots_of``.
        fleet: Source of objects; live lists by default, made once for all nodes of a pass and once for the rollout.
    """

    def __init__(
        self,
        kube: TypedKube,
        agents: AgentPodSettings,
        *,
        operator_node: str | None = None,
        fleet: FleetSource | None = None,
        health: HealthSource | None = None,
        term: Term | None = None,
    ) -> None:
        self._kube = kube
        self._lists = _OnceListed(LiveFleet(kube, agents.namespace, read_upgrade))
        snapshots = snapshots_of(
            kube,
            agents,
            operator_node=operator_node,
            source=fleet or self._lists,
            health=health,
            term=term,
            recent_seconds=float("inf"),
        )
        self._operator = Controllers(snapshots)
        self.rollouts, self.nodes = self._operator.rollouts, self._operator.nodes
        self.snapshots, self.recorder = self._operator.snapshots, self._operator.recorder

    async def reconcile(self, name: str) -> Result:
        """Make one pass over one NodeUpgrade."""
        try:
            slots = (await self._kube.get(UPGRADES, name)).get("status", {}).get("inFlight", ())
        except NotFoundError:
            slots = ()
        self.renew(name)
        looks = [asyncio.ensure_future(self.nodes.reconcile(name, slot["node"])) for slot in slots]
        try:
            nodes = [await look for look in looks]
            self.renew(name)
            rollout = await self.rollouts.reconcile(name)
        finally:
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
            await flushed(self.recorder)
        made = [*nodes, rollout]
        waits = [each.wait_over_in for each in made if each.wait_over_in is not None]
        return Result(
            actions=tuple(action for each in made for action in each.actions),
            applied=tuple(action for each in made for action in each.applied),
            conflicted=any(each.conflicted for each in made),
            over=rollout.over and not any(each.actions for each in nodes),
            upgrade=rollout.upgrade,
            in_flight=rollout.in_flight,
            wait_over_in=min(waits, default=None),
        )

    async def gather(self, name: str) -> FleetSnapshot:
        """Read everything that the next pass depends on, with the pods that it asks for."""
        self.renew(name)
        fleet, now = await self.snapshots.of_rollout(name), self._kube.utcnow()
        flying = fleet.upgrade.status.flying
        fleet = await self.snapshots.with_pods(fleet, [node for node in flying if needs_pods(fleet, node, now)])
        while missing := plan(fleet, now).unread:
            fleet = await self.snapshots.with_pods(fleet, missing)
        return fleet

    async def unfinished(self) -> tuple[str, ...]:
        """Return the names of all NodeUpgrades that may need work."""
        return await self.rollouts.unfinished()

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Remove what no rollout is responsible for."""
        return await self._operator.sweep.run()

    def renew(self, name: str) -> None:
        """Let everything be read again."""
        self._lists.seen = None
        self.snapshots.memory(name).recent = None


def decisions(fleet: FleetSnapshot, now: datetime) -> tuple[NodeAction, ...]:
    """Return what both controllers would do next."""
    nodes = {name: actions for name in fleet.upgrade.status.flying if (actions := advance(fleet, name, now))}
    waiting = {name: last for name, (*_, last) in nodes.items() if isinstance(last, Wait | FreeSlot)}
    planned = plan(replace(fleet, waiting={**fleet.waiting, **waiting}), now)
    return (*(action for actions in nodes.values() for action in actions), *planned.actions)


class _OnceListed(FleetSource):
    """Lists everything once, until it is told to do so again."""

    def __init__(self, lists: LiveFleet) -> None:
        self._lists = lists
        self.read_upgrade = lists.read_upgrade
        self.seen: FleetObjects | None = None

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        seen = self.seen = self.seen or await self._lists.read(upgrade)
        return seen

    async def get_nodes(self) -> Mapping[NodeName, NodeView]:
        return await self._lists.get_nodes()

    async def get_tasks(self) -> Mapping[NodeName, Task]:
        return await self._lists.get_tasks()

    async def get_open_tasks(self, version: int) -> frozenset[NodeName]:
        return await self._lists.get_open_tasks(version)

    async def list_upgrades(self) -> Mapping[str, KnownUpgrade]:
        return await self._lists.list_upgrades()
