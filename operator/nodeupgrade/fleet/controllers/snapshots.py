"""Reads what the controllers decide on: everything anew for a rollout, little more than the caches for a node."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.api_servers import read_api_servers
from nodeupgrade.cluster.deschedulers import KnownDeschedulers
from nodeupgrade.cluster.kube_api import UPGRADES, KubeApi, NotFoundError, NotLeadingError
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.cluster.pods import Pod, for_admission, parse_pod
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import FleetSource
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.health.evaluation import HealthSource
from nodeupgrade.fleet.hooks.hooks import may_have_begun
from nodeupgrade.fleet.hooks.jobs import read_hook_jobs
from nodeupgrade.fleet.leadership.lease import supersedes, term_of
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion

RECENT_SECONDS, GATHERING_SECONDS = 1.0, 0.2
"""What saves requests in a cluster: see ``Snapshots`` and ``GuardWriter``."""

READS_AT_ONCE = 64
"""Nodes that are looked at at the same time; each look mostly waits for the API server's index to come up to date."""


class Term(Protocol):
    """A leader's term of office."""

    @property
    def epoch(self) -> str:
        """What the leader marks objects with; differs from that of every other term."""
        ...

    def step_down(self, term: int) -> None:
        """Stop leading: objects bear the mark of this term, which may not be over."""
        ...


@dataclass(slots=True)
class Snapshots:
    """Snapshots of rollouts, and what is kept of each rollout in memory.

    Args:
        operator_node: The node that the operator runs on, if known.
        term: This leader's term; None if nobody else can write.
        cluster_budget: What all rollouts together may take.
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
    cluster_budget: ClusterBudget = field(default_factory=ClusterBudget)
    recent_seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _deschedulers: KnownDeschedulers = field(default_factory=KnownDeschedulers)
    _memories: dict[str, RolloutMemory] = field(default_factory=dict)
    _looks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READS_AT_ONCE))

    def memory(self, name: str) -> RolloutMemory:
        """Return what is kept of a rollout."""
        return self._memories.setdefault(name, RolloutMemory())

    def forget(self, name: str | None = None) -> None:
        """Forget what is kept of a rollout, or of all."""
        for each in [*self._memories] if name is None else [name]:
            if (memory := self._memories.pop(each, None)) is not None and memory.reading is not None:
                memory.reading.cancel()

    async def of_rollout(self, name: str) -> FleetSnapshot:
        """Read everything that a plan depends on, except pods.

        Raises:
            NotFoundError: There is no such NodeUpgrade.
            NotLeadingError: Another leader has taken over.
            UnavailableError: Something cannot be read at the moment.
        """
        memory, began = self.memory(name), self.clock()
        epoch, writes = "" if self.term is None else self.term.epoch, memory.status_writes
        upgrade = self.source.read_upgrade(await self.kube.get(UPGRADES, name))
        health, deschedulers = self.health.readings(upgrade), await self._deschedulers.read(self.kube, began)
        fleet = replace(
            await gather(self.kube, upgrade, self.source, self.guard),
            operator_node=self.operator_node,
            health=health,
            allowed=self.agents.allowed,
            deschedulers=deschedulers,
            epoch=epoch,
            cluster_budget=self.cluster_budget,
        )
        self._require_term(fleet)
        if writes == memory.status_writes:
            memory.recent, memory.read_at = fleet, began
        return memory.recalled(self._as_remembered(fleet, memory), self.kube.utcnow())

    async def of_node(self, rollout: str, name: NodeName) -> FleetSnapshot:
        """Return a recent snapshot with the objects of all nodes as they are now, and the Jobs of this node's hooks.

        Raises:
            NotFoundError, NotLeadingError, UnavailableError: See ``of_rollout``.
        """
        memory, began = self.memory(rollout), self.clock()
        waiting = dict(memory.waiting)  # before anything is read: a slot may be freed meanwhile
        while (seen := memory.recent) is None or (
            memory.read_at < began and self.clock() - memory.read_at >= self.recent_seconds
        ):
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
        self._require_term(fleet)
        return await self._with_hook_jobs(fleet, name)

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

    def _require_term(self, fleet: FleetSnapshot) -> None:
        """Check that nobody has taken over the rollout since this term began, as far as the nodes in flight tell.

        The NodeUpgrade alone does not: it is read first, and another leader may have taken over before the tasks were
        read. The term steps down; if it is valid after all, the next one will be later.
        """
        if self.term is None:
            return
        tasks = (fleet.tasks.get(name) for name in fleet.upgrade.status.flying)
        marks = (fleet.upgrade.status.leader, *(task.epoch for task in tasks if task is not None))
        if later := [mark for mark in marks if supersedes(mark, fleet.epoch)]:
            self.term.step_down(max(map(term_of, later)))
            raise NotLeadingError(f"the NodeUpgrade or one of its tasks bears the mark {later[0]} of another leader")

    async def with_pods(self, fleet: FleetSnapshot, names: Iterable[NodeName], *, whole: bool = True) -> FleetSnapshot:
        """Add the pods of nodes, at most ``READS_AT_ONCE`` at a time; of ended runs, also the Node as it is now.

        A verdict must not miss a version that the watch has not delivered yet. Pods that are not ``whole`` have what
        admission asks of them: a whole one takes tens of KB.
        """
        names = tuple(names)
        looks = [asyncio.ensure_future(self._look_at(fleet, name, whole)) for name in names]
        try:
            found = dict(zip(names, await asyncio.gather(*looks), strict=True))
        finally:
            for look in looks:  # nobody waits for the others if one failed
                look.cancel()
        pods = {**fleet.pods, **{name: pods for name, (pods, _) in found.items()}}
        fresh = {name: node for name, (_, node) in found.items() if node is not None}
        return replace(fleet, pods=pods, nodes={**fleet.nodes, **fresh} if fresh else fleet.nodes)

    async def _look_at(
        self, fleet: FleetSnapshot, name: NodeName, whole: bool
    ) -> tuple[tuple[Pod, ...], NodeView | None]:
        async with self._looks:
            served = await self.kube.list_pods_on_node(name)
            pods = tuple(map(parse_pod, served if whole else map(for_admission, served)))
            del served
            if (task := fleet.own_task(name)) is not None and task.reported.phase.terminal:
                with contextlib.suppress(NotFoundError):
                    return pods, view_node(await self.kube.get_node(name))
            return pods, None

    def _as_remembered(self, fleet: FleetSnapshot, memory: RolloutMemory) -> FleetSnapshot:
        return replace(
            fleet,
            guard=self.guard.latest(fleet.guard),
            setbacks=memory.failures.setbacks(self.kube.utcnow()),
            agents_lost=memory.failures.agents_lost,
            waiting=dict(memory.waiting),
            starts_unanswered=frozenset(memory.starts_unanswered),
        )


async def gather(kube: KubeApi, upgrade: Upgrade, source: FleetSource, guard: GuardWriter) -> FleetSnapshot:
    """Read the objects that a plan depends on, except the pods on the nodes and the Jobs of hooks.

    An unreadable Node or task excludes only its own node; an unreadable NodeUpgrade counts as one that is active.

    The NodeUpgrade is read before anything else: its resourceVersion is the precondition of the status write, so
    everything that the slots are counted from is at least as new.
    """
    objects, version, api_servers = await asyncio.gather(
        source.read(upgrade), kube.server_version(), read_api_servers(kube)
    )
    active, rivals = _others(upgrade, objects.upgrades)
    fleet = FleetSnapshot(
        upgrade=upgrade,
        server=KubeletVersion.parse(version),
        nodes=objects.nodes,
        tasks=objects.tasks,
        agents=objects.agents,
        artifacts=objects.artifacts,
        unreadable=objects.unreadable,
        active_upgrades=active,
        rivals=rivals,
        api_servers=api_servers,
    )
    return replace(fleet, guard=await guard.read()) if fleet.needs_guard else fleet


def _others(upgrade: Upgrade, known: Mapping[str, KnownUpgrade]) -> tuple[frozenset[str], tuple[Upgrade, ...]]:
    """Return the UIDs of all active NodeUpgrades, and those other than ``upgrade`` that can be parsed."""
    others = [each for each in known.values() if each.uid != upgrade.uid and each.active]
    own = {upgrade.uid} if upgrade.active else set()
    return frozenset({each.uid for each in others} | own), tuple(o.upgrade for o in others if o.upgrade is not None)
