"""Reads what the controllers decide on: everything anew for a rollout, little more than the caches for a node."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.catalogue import read_upgrade
from nodeupgrade.domain.rollout.hooks import may_have_begun
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.election import Term
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.gathering import READS_AT_ONCE, gather, look_at
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.rollout.hook_job import read_hook_jobs
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.rollout.result import RolloutMemory
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.health import HealthSource
from nodeupgrade.ports.kube import UPGRADES


@dataclass(slots=True)
class Snapshots:
    """Snapshots of rollouts, and what is kept of each rollout in memory.

    Args:
        kube: The API server.
        agents: Settings of agent pods.
        source: Source of Nodes, tasks, agent pods and other NodeUpgrades.
        guard: Writes the parameters of the readiness guard.
        health: Source of the readings of health checks.
        operator_node: The node that the operator runs on, if known.
        term: This leader's term; None if nobody else can write.
        recent_seconds: How old what is not cached may be for a node: the NodeUpgrade, versions of API servers, the
            guard's parameters.
        clock: Seconds, monotonic.
    """

    kube: TypedKube
    agents: AgentPodSettings
    source: FleetSource
    guard: GuardWriter
    health: HealthSource
    operator_node: NodeName | None = None
    term: Term | None = None
    recent_seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _memories: dict[str, RolloutMemory] = field(default_factory=dict)
    _looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS_AT_ONCE))

    def memory(self, name: str) -> RolloutMemory:
        """Return what is kept of a rollout."""
        return self._memories.setdefault(name, RolloutMemory())

    def forget(self, name: str | None = None) -> None:
        """Forget what is kept of a rollout, or of all."""
        for each in [*self._memories] if name is None else [name]:
            self._memories.pop(each, None)

    async def of_rollout(self, name: str) -> FleetSnapshot:
        """Read everything that a plan depends on, except pods.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
            UnavailableError: Something cannot be read at the moment.
        """
        memory, epoch = self.memory(name), "" if self.term is None else self.term.epoch
        writes = memory.status_writes
        upgrade = read_upgrade(await self.kube.get(UPGRADES, name))
        fleet = await gather(
            self.kube,
            upgrade,
            self.source,
            namespace=self.agents.namespace,
            operator_node=self.operator_node,
            health=self.health.readings(upgrade),
            allowed=self.agents.allowed,
        )
        fleet = replace(fleet, epoch=epoch)
        if writes == memory.status_writes:
            memory.recent, memory.read_at = fleet, self.clock()
        return self._as_remembered(fleet, memory)

    async def of_node(self, rollout: str, name: NodeName) -> FleetSnapshot:
        """Return a recent snapshot with the objects of all nodes as they are now, and the Jobs of this node's hooks.

        Raises:
            NotFoundError, UnavailableError: See ``of_rollout``.
        """
        memory = self.memory(rollout)
        async with memory.reading:
            if (seen := memory.recent) is None or self.clock() - memory.read_at >= self.recent_seconds:
                seen = await self.of_rollout(rollout)
        objects = await self.source.read(seen.upgrade)
        fleet = replace(
            self._as_remembered(seen, memory),
            nodes=objects.nodes,
            tasks=objects.tasks,
            agents=objects.agents,
            artifacts=objects.artifacts,
            unreadable=objects.unreadable,
        )
        if (task := fleet.own_task(name)) is None:
            return fleet
        begun = [(task, hook) for hook in may_have_begun(task, gone=name not in fleet.nodes)]
        if not begun:
            return fleet
        return replace(fleet, hook_jobs=await read_hook_jobs(self.kube, self.agents.namespace, begun))

    async def with_pods(self, fleet: FleetSnapshot, names: Iterable[NodeName]) -> FleetSnapshot:
        """Add the pods of these nodes, as ``look_at`` does; at most ``READS_AT_ONCE`` are read at the same time."""
        return await look_at(self.kube, fleet, names, self._looks)

    def _as_remembered(self, fleet: FleetSnapshot, memory: RolloutMemory) -> FleetSnapshot:
        return replace(
            fleet,
            guard=self.guard.latest(fleet.guard),
            setbacks=memory.failures.setbacks(self.kube.utcnow()),
            agents_lost=memory.failures.agents_lost,
            done=dict(memory.done),
            starts_unanswered=frozenset(memory.starts_unanswered),
        )
