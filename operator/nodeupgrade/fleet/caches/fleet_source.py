"""The source of Nodes, tasks, agent pods and NodeUpgrades for a pass: informers."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar, cast

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, AgentPodView, PodRole
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, KubeApi, Resource
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.fleet.agents.manifests import AgentViews
from nodeupgrade.fleet.caches.informer import Informer, Timing
from nodeupgrade.fleet.caches.object_cache import Delta
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade, ReadUpgrade, UpgradeCache

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetObjects:
    """All Nodes, tasks, agent pods and their artifacts' pods by node, and all NodeUpgrades by name."""

    nodes: Mapping[NodeName, NodeView] = field(default_factory=dict)
    tasks: Mapping[NodeName, Task] = field(default_factory=dict)
    agents: Mapping[NodeName, AgentPodView] = field(default_factory=dict)
    artifacts: Mapping[NodeName, AgentPodView] = field(default_factory=dict)
    unreadable: Mapping[NodeName, str] = field(default_factory=dict)  # why the Node or its task cannot be parsed
    upgrades: Mapping[str, KnownUpgrade] = field(default_factory=dict)


class FleetSource(Protocol):
    """A source of the fleet's objects.

    What it asks the API server for raises UnavailableError if it cannot be read at the moment.
    """

    read_upgrade: ReadUpgrade

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        """Return all objects, none of them older than this state of the NodeUpgrade.

        The limit on nodes in flight depends on this: a slot that is free in this state was freed by a writer that saw
        the run end, so no later reader may still see that run in progress, or an earlier one.
        """
        ...

    async def get_nodes(self) -> Mapping[NodeName, NodeView]:
        """Return all Nodes, possibly outdated."""
        ...

    async def get_tasks(self) -> Mapping[NodeName, Task]:
        """Return all tasks that can be read, possibly outdated."""
        ...

    async def get_open_tasks(self, version: int) -> frozenset[NodeName]:
        """Return the nodes whose tasks are open or cannot be read, as of a resourceVersion or later."""
        ...

    async def list_upgrades(self) -> Mapping[str, KnownUpgrade]:
        """Return all NodeUpgrades as they are now, by name."""
        ...


class InformedFleet(FleetSource):
    """Serves objects from informers, updated with the responses to our own writes; NodeUpgrades come from ``upgrades``.

    Args:
        on_change: Called with the name of a node of which an object has changed.
        on_error: Called with kind and error when listing or watching fails.
    """

    def __init__(
        self,
        kube: KubeApi,
        namespace: str,
        read_upgrade: ReadUpgrade,
        *,
        on_change: Callable[[NodeName], None] = lambda _name: None,
        on_error: Callable[[str, str], None] = lambda _kind, _problem: None,
        timing: Timing | None = None,
    ) -> None:
        self._kube, self._on_change = kube, on_change
        self._written: dict[str, int] = {}
        self.read_upgrade = read_upgrade
        self.upgrades = UpgradeCache(kube, read_upgrade)

        changed = self._object_changed
        self.nodes = Informer(
            kube, NODES, view_node, on_change=changed, on_error=partial(on_error, NODES.kind), timing=timing
        )
        self.tasks = Informer(
            kube, TASKS, parse_task, on_change=changed, on_error=partial(on_error, TASKS.kind), timing=timing
        )
        self.agents = Informer(
            kube, PODS.within(namespace), AgentViews(), labels=AGENT_LABELS, on_change=self._agent_changed,
            on_error=partial(on_error, PODS.kind), timing=timing,
        )  # fmt: skip

    @property
    def informers(self) -> tuple[Informer[NodeView], Informer[Task], Informer[AgentPodView]]:
        """The informers for Nodes, tasks and agent pods."""
        return self.nodes, self.tasks, self.agents

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        """Return the cached objects, once the caches are at least as new as the NodeUpgrade.

        After our own write they are: its precondition was cached, and nobody else can have written the NodeUpgrade in
        between. After someone else's write, wait for the watches to catch up. Other NodeUpgrades may be in doubt. After
        the API server was restored from a backup, nothing that is cached counts.
        """
        awaited = version = int(upgrade.resource_version)
        if version < (known := self._written.get(upgrade.name, 0)):  # it was read before our last write, or
            now = await self._kube.get(UPGRADES, upgrade.name)
            if int(now["metadata"]["resourceVersion"]) < known:  # the backup is older than that
                awaited = sys.maxsize
        if awaited > known:
            await asyncio.gather(*(each.at_least(awaited) for each in (*self.informers, self.upgrades)))
            self._written[upgrade.name] = max(version, 0 if awaited > version else self._written.get(upgrade.name, 0))
        elif self.upgrades.doubts:
            await self.upgrades.at_least(version)
        return assemble(self.nodes, self.tasks, self.agents, dict(self.upgrades.views))

    async def get_nodes(self) -> Mapping[NodeName, NodeView]:
        return cast("Mapping[NodeName, NodeView]", self.nodes.views)

    async def get_tasks(self) -> Mapping[NodeName, Task]:
        return cast("Mapping[NodeName, Task]", self.tasks.views)

    async def get_open_tasks(self, version: int) -> frozenset[NodeName]:
        await self.tasks.at_least(version)
        return opened(self.tasks)

    async def list_upgrades(self) -> Mapping[str, KnownUpgrade]:
        return await self.upgrades.listed()

    def learn(self, resource: Resource, body: Json) -> None:
        """Store the response to one of our own writes."""
        if resource == UPGRADES:
            name, version = body["metadata"]["name"], int(body["metadata"]["resourceVersion"])
            self._written[name] = max(version, self._written.get(name, 0))
            self.upgrades.learn(body)
        for informer in self.informers:
            if informer.resource == resource:
                informer.learn(body)

    def forget(self, resource: Resource, name: str, uid: str | None) -> None:
        """Remove an object that is gone; without ``uid``, the cached one of that name."""
        for informer in self.informers:
            if informer.resource == resource:
                informer.forget(name, uid)

    def doubt(self, resource: Resource) -> bool:
        """Report whether a changed object is to be read; NodeUpgrades are all listed before a plan relies on them."""
        self.upgrades.doubts += resource == UPGRADES
        return any(informer.resource == resource for informer in self.informers)

    def _object_changed(self, delta: Delta[NodeView] | Delta[Task]) -> None:
        if _is_relevant(delta) and (changed := delta.after or delta.before) is not None:
            self._on_change(changed.name)

    def _agent_changed(self, delta: Delta[AgentPodView]) -> None:
        if delta.before != delta.after and (pod := delta.after or delta.before) is not None:
            self._on_change(pod.node)


def _is_relevant(delta: Delta[NodeView] | Delta[Task]) -> bool:
    """Report whether more than the resourceVersion changed: most writes to a Node are heartbeats."""
    before, after = delta.before, delta.after
    return before is None or after is None or replace(before, resource_version=after.resource_version) != after


class Views(Protocol[T_co]):
    """The common interface of a cache and an informer."""

    @property
    def views(self) -> Mapping[str, T_co]: ...

    @property
    def unreadable(self) -> Mapping[str, str]: ...


def opened(tasks: Views[Task]) -> frozenset[NodeName]:
    """Return the nodes whose tasks are open or cannot be read."""
    return frozenset({*(task.name for task in tasks.views.values() if task.open), *map(NodeName, tasks.unreadable)})


def assemble(
    nodes: Views[NodeView], tasks: Views[Task], agents: Views[AgentPodView], upgrades: Mapping[str, KnownUpgrade]
) -> FleetObjects:
    """Put the objects of a fleet together; Nodes and tasks have the names of their nodes."""
    return FleetObjects(
        nodes=cast("Mapping[NodeName, NodeView]", nodes.views),
        tasks=cast("Mapping[NodeName, Task]", tasks.views),
        agents={pod.node: pod for pod in agents.views.values() if pod.role is PodRole.AGENT},
        artifacts={pod.node: pod for pod in agents.views.values() if pod.role is PodRole.ARTIFACT},
        unreadable=cast("Mapping[NodeName, str]", {**nodes.unreadable, **tasks.unreadable}),
        upgrades=upgrades,
    )
