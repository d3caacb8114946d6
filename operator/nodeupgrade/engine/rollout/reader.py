"""Where a pass reads Nodes, tasks and agent pods: live lists, or what informers know."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, cast

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.agent_pods import AgentPodView, view_agent_pod
from nodeupgrade.domain.nodes import NodeView, view_node
from nodeupgrade.engine.informer.informer import Informer, Timing
from nodeupgrade.engine.informer.object_cache import Delta, ObjectCache
from nodeupgrade.engine.rollout.agent_pod import AGENT_CONTAINER, AGENT_LABELS, ARTIFACT_CONTAINER
from nodeupgrade.engine.rollout.upgrade_cache import KnownUpgrade, UpgradeCache, known_upgrade
from nodeupgrade.ports.kube import NODES, PODS, TASKS, UPGRADES, KubeApi, Resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetObjects:
    """All Nodes, all tasks, the agent pods by node, and all NodeUpgrades by name.

    Attributes:
        unreadable: why a Node or its task cannot be read by this version, by node.
    """

    nodes: Mapping[NodeName, NodeView] = field(default_factory=dict)
    tasks: Mapping[NodeName, Task] = field(default_factory=dict)
    agents: Mapping[NodeName, AgentPodView] = field(default_factory=dict)
    unreadable: Mapping[NodeName, str] = field(default_factory=dict)
    upgrades: Mapping[str, KnownUpgrade] = field(default_factory=dict)


class FleetSource(Protocol):
    """Whoever can say what the fleet looks like."""

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        """Return all objects, none of them older than this state of the NodeUpgrade.

        That is what bounds the nodes in flight: a slot that is free in this state was freed by somebody who saw
        the run end, and nobody who reads after him may still believe in the run, or in an earlier one.

        Raises:
            UnavailableError: They cannot be had just now.
        """
        ...

    async def nodes_known(self) -> Mapping[NodeName, NodeView]:
        """Return all Nodes, be it as they were a while ago."""
        ...

    async def upgrades_listed(self) -> Mapping[str, KnownUpgrade]:
        """Return all NodeUpgrades as they are now, by name.

        Raises:
            UnavailableError: They cannot be had just now.
        """
        ...


class LiveFleet:
    """Lists everything on every pass: exact, and the dearer the larger the fleet.

    Args:
        kube: Where to list.
        namespace: Where agent pods are; None for whoever does nothing about a node in flight, and needs none.
    """

    def __init__(self, kube: KubeApi, namespace: str | None) -> None:
        self._kube = kube
        self._agents = None if namespace is None else PODS.within(namespace)

    async def read(self, upgrade: Upgrade) -> FleetObjects:  # noqa: ARG002 - a list is never older than what was read
        """Return what the API server lists now."""
        return _assembled(
            await self._all(NODES, view_node),
            await self._all(TASKS, parse_task),
            ObjectCache(_view_agent)
            if self._agents is None
            else await self._all(self._agents, _view_agent, AGENT_LABELS),
            await self.upgrades_listed(),
        )

    async def nodes_known(self) -> Mapping[NodeName, NodeView]:
        """Return what the API server lists now."""
        return cast("Mapping[NodeName, NodeView]", (await self._all(NODES, view_node)).views)

    async def upgrades_listed(self) -> Mapping[str, KnownUpgrade]:
        """Return what the API server lists now."""
        return {body["metadata"]["name"]: known_upgrade(body) for body in await self._kube.list(UPGRADES)}

    async def _all(
        self, resource: Resource, view: Callable[[Json], T], labels: Mapping[str, str] | None = None
    ) -> ObjectCache[T]:
        cache = ObjectCache(view)
        for body in await self._kube.list(resource, labels=labels):
            cache.learn(body)
        return cache


class InformedFleet:
    """Knows everything from informers, and from what our own writes returned; of NodeUpgrades, from ``upgrades``.

    Args:
        kube: Where to list and watch.
        namespace: Where agent pods are.
        concerned: Hears the name of a NodeUpgrade whose nodes changed; None stands for any of them.
        troubled: Hears which kind cannot be listed or watched just now, and why.
    """

    def __init__(
        self,
        kube: KubeApi,
        namespace: str,
        *,
        concerned: Callable[[str | None], None] = lambda _name: None,
        troubled: Callable[[str, str], None] = lambda _kind, _problem: None,
        timing: Timing | None = None,
    ) -> None:
        self._concerned = concerned
        self._written: dict[str, str] = {}
        self.upgrades = UpgradeCache(kube)

        def trouble(resource: Resource) -> Callable[[str], None]:
            return lambda problem: troubled(resource.kind, problem)

        self.nodes = Informer(
            kube, NODES, view_node, changed=self._node_changed, troubled=trouble(NODES), timing=timing
        )
        self.tasks = Informer(
            kube, TASKS, parse_task, changed=self._task_changed, troubled=trouble(TASKS), timing=timing
        )
        self.agents = Informer(
            kube, PODS.within(namespace), _view_agent, labels=AGENT_LABELS, changed=self._agent_changed,
            troubled=trouble(PODS), timing=timing,
        )  # fmt: skip

    @property
    def informers(self) -> tuple[Informer[NodeView], Informer[Task], Informer[AgentPodView]]:
        """All of them."""
        return self.nodes, self.tasks, self.agents

    async def run(self) -> None:
        """Follow for ever."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        """Return what is known, once it is not older than the NodeUpgrade.

        After a write of our own it is not: what the write relied upon was known, and nobody else can have written
        the NodeUpgrade in between. After somebody else's write we wait for the watches to come so far.
        """
        if self._written.get(upgrade.name) != upgrade.resource_version:
            version = int(upgrade.resource_version)
            await asyncio.gather(*(each.at_least(version) for each in (*self.informers, self.upgrades)))
            self._written[upgrade.name] = upgrade.resource_version
        return _assembled(self.nodes, self.tasks, self.agents, self.upgrades.views)

    async def nodes_known(self) -> Mapping[NodeName, NodeView]:
        """Return what the informer knows."""
        return cast("Mapping[NodeName, NodeView]", self.nodes.views)

    async def upgrades_listed(self) -> Mapping[str, KnownUpgrade]:
        """Return what the API server lists now."""
        return await self.upgrades.listed()

    def learn(self, resource: Resource, body: Json) -> None:
        """Take over what the API server answered to a write of ours."""
        if resource == UPGRADES:
            self._written[body["metadata"]["name"]] = body["metadata"]["resourceVersion"]
            self.upgrades.learn(body)
        for informer in self.informers:
            if informer.resource == resource:
                informer.learn(body)

    def forget(self, resource: Resource, name: str, uid: str | None) -> None:
        """Take note that an object is gone; without ``uid``, the one that is known by that name."""
        for informer in self.informers:
            if informer.resource == resource:
                informer.forget(name, uid)

    def follows(self, resource: Resource) -> bool:
        """Whether there is an informer for a kind."""
        return any(informer.resource == resource for informer in self.informers)

    def _node_changed(self, delta: Delta[NodeView]) -> None:
        if _differs(delta):
            self._concerned(None)

    def _task_changed(self, delta: Delta[Task]) -> None:
        if _differs(delta):
            for name in {task.spec.upgrade_ref.name for task in (delta.before, delta.after) if task is not None}:
                self._concerned(name)

    def _agent_changed(self, delta: Delta[AgentPodView]) -> None:
        pod = delta.after or delta.before
        task = None if pod is None else self.tasks.get(pod.node)
        if delta.before != delta.after:
            self._concerned(None if task is None else task.spec.upgrade_ref.name)


def _differs(delta: Delta[NodeView] | Delta[Task]) -> bool:
    """Whether more changed than the resourceVersion: most writes to a Node are heartbeats that we do not look at."""
    before, after = delta.before, delta.after
    if before is None or after is None:
        return True
    return replace(before, resource_version=after.resource_version) != after


def _view_agent(body: Json) -> AgentPodView:
    return view_agent_pod(body, AGENT_CONTAINER, ARTIFACT_CONTAINER)


class _Known(Protocol[T_co]):
    """What a cache and an informer have in common."""

    @property
    def views(self) -> Mapping[str, T_co]: ...

    @property
    def unreadable(self) -> Mapping[str, str]: ...


def _assembled(
    nodes: _Known[NodeView], tasks: _Known[Task], agents: _Known[AgentPodView], upgrades: Mapping[str, KnownUpgrade]
) -> FleetObjects:
    return FleetObjects(
        # Both kinds are named after their node.
        nodes=cast("Mapping[NodeName, NodeView]", nodes.views),
        tasks=cast("Mapping[NodeName, Task]", tasks.views),
        agents={pod.node: pod for pod in agents.views.values()},
        unreadable=cast("Mapping[NodeName, str]", {**nodes.unreadable, **tasks.unreadable}),
        upgrades=upgrades,
    )
