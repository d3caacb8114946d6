"""Reads what the controllers decide on: everything anew for a rollout, little more than the caches for a node."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.catalogue import read_upgrade
from nodeupgrade.domain.rollout.actions import FreeSlot, Wait
from nodeupgrade.domain.rollout.hooks import may_have_begun
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.election import Term
from nodeupgrade.engine.rollout.agent_pod import AgentPodSettings
from nodeupgrade.engine.rollout.failure_history import FailureHistory
from nodeupgrade.engine.rollout.gathering import READS_AT_ONCE, gather, look_at
from nodeupgrade.engine.rollout.guard_parameters import GuardWriter
from nodeupgrade.engine.rollout.hook_job import read_hook_jobs
from nodeupgrade.engine.rollout.reader import FleetSource
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.health import HealthSource
from nodeupgrade.ports.kube import UPGRADES


@dataclass(slots=True)
class RolloutMemory:
    """What is kept of one NodeUpgrade; a new operator does without."""

    # writes that failed lately, and agents that ended early
    failures: FailureHistory = field(default_factory=FailureHistory)
    # what nodes in flight waited for when they were reconciled last. One that waits for its slot to be freed is not
    # touched any more: the slot may be gone at any moment.
    waiting: dict[NodeName, Wait | FreeSlot] = field(default_factory=dict)
    # nodes whose start was not answered: it may have taken effect, or may yet, until their task is written
    starts_unanswered: set[NodeName] = field(default_factory=set)
    # counts the beginnings and ends of writes of the status; what was read across one is not recent
    status_writes: int = 0
    recent: FleetSnapshot | None = None  # what was read last
    read_at: float = 0.0  # when that was begun, on the monotonic clock
    reading: asyncio.Future[FleetSnapshot] | None = None  # reads it anew, for all nodes that wait for it


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
            memory = self._memories.pop(each, None)
            if memory is not None and memory.reading is not None:
                memory.reading.cancel()

    async def of_rollout(self, name: str) -> FleetSnapshot:
        """Read everything that a plan depends on, except pods.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
            UnavailableError: Something cannot be read at the moment.
        """
        memory, began = self.memory(name), self.clock()
        epoch, writes = "" if self.term is None else self.term.epoch, memory.status_writes
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
            memory.recent, memory.read_at = fleet, began
        return self._as_remembered(fleet, memory)

    async def of_node(self, rollout: str, name: NodeName) -> FleetSnapshot:
        """Return a recent snapshot with the objects of all nodes as they are now, and the Jobs of this node's hooks.

        Raises:
            NotFoundError, UnavailableError: See ``of_rollout``.
        """
        memory, began = self.memory(rollout), self.clock()
        waiting = dict(memory.waiting)  # before anything is read: a slot may be freed meanwhile
        while (seen := memory.recent) is None or not self._is_recent(memory, began):
            await self._read_together(rollout, memory)
            memory = self.memory(rollout)  # it may have been forgotten, and the NodeUpgrade made again
        objects = await self.source.read(seen.upgrade)
        fleet = replace(
            self._as_remembered(seen, memory),
            waiting={**waiting, **memory.waiting},
            nodes=objects.nodes,
            tasks=objects.tasks,
            agents=objects.agents,
            artifacts=objects.artifacts,
            unreadable=objects.unreadable,
        )
        return await self._with_hook_jobs(fleet, name)

    def _is_recent(self, memory: RolloutMemory, began: float) -> bool:
        return memory.read_at >= began or self.clock() - memory.read_at < self.recent_seconds

    async def _read_together(self, name: str, memory: RolloutMemory) -> None:
        """Let everything be read anew, once for all who ask for it meanwhile; they share an error as well."""
        if memory.reading is None or memory.reading.done():
            memory.reading = asyncio.ensure_future(self.of_rollout(name))
        await asyncio.shield(memory.reading)

    async def _with_hook_jobs(self, fleet: FleetSnapshot, name: NodeName) -> FleetSnapshot:
        task = fleet.own_task(name)
        if task is None or not (begun := [*may_have_begun(task, gone=name not in fleet.nodes)]):
            return fleet
        return replace(fleet, hook_jobs=await read_hook_jobs(self.kube, self.agents.namespace, task, begun))

    async def with_pods(self, fleet: FleetSnapshot, names: Iterable[NodeName]) -> FleetSnapshot:
        """Add the pods of these nodes, as ``look_at`` does; at most ``READS_AT_ONCE`` are read at the same time."""
        return await look_at(self.kube, fleet, names, self._looks)

    def _as_remembered(self, fleet: FleetSnapshot, memory: RolloutMemory) -> FleetSnapshot:
        return replace(
            fleet,
            guard=self.guard.latest(fleet.guard),
            setbacks=memory.failures.setbacks(self.kube.utcnow()),
            agents_lost=memory.failures.agents_lost,
            waiting=dict(memory.waiting),
            starts_unanswered=frozenset(memory.starts_unanswered),
        )
