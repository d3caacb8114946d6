"""The objects of a fleet, listed anew each time."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES, KubeApi, Resource
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.fleet.agents.manifests import AgentViews
from nodeupgrade.fleet.caches.fleet_source import FleetObjects, FleetSource, assemble, opened
from nodeupgrade.fleet.caches.object_cache import ObjectCache, Reduced
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade, ReadUpgrade, known_upgrade

T = TypeVar("T")


class LiveFleet(FleetSource):
    """Lists everything on every pass: always current, but expensive for a large fleet. Parses what has changed.

    Args:
        namespace: The namespace of agent pods; None for callers that do not need them.
    """

    def __init__(self, kube: KubeApi, namespace: str | None, read_upgrade: ReadUpgrade) -> None:
        self._kube = kube
        self.read_upgrade = read_upgrade
        self._agents = None if namespace is None else PODS.within(namespace)
        self._view_agent = AgentViews()
        self._last: dict[str, dict[tuple[str, str], Reduced[Any]]] = {}

    async def read(self, upgrade: Upgrade) -> FleetObjects:  # noqa: ARG002 - a list is never older than what was read
        """Return all objects as the API server lists them now."""
        return assemble(
            await self._all(NODES, view_node),
            await self._all(TASKS, parse_task),
            ObjectCache(self._view_agent)
            if self._agents is None
            else await self._all(self._agents, self._view_agent, AGENT_LABELS),
            await self.list_upgrades(),
        )

    async def get_nodes(self) -> Mapping[NodeName, NodeView]:
        return cast("Mapping[NodeName, NodeView]", (await self._all(NODES, view_node)).views)

    async def get_tasks(self) -> Mapping[NodeName, Task]:
        return cast("Mapping[NodeName, Task]", (await self._all(TASKS, parse_task)).views)

    async def get_open_tasks(self, version: int) -> frozenset[NodeName]:  # noqa: ARG002 - a list is never older
        return opened(await self._all(TASKS, parse_task))

    async def list_upgrades(self) -> Mapping[str, KnownUpgrade]:
        return (await self._all(UPGRADES, partial(known_upgrade, self.read_upgrade))).views

    async def _all(
        self, resource: Resource, view: Callable[[Json], T], labels: Mapping[str, str] | None = None
    ) -> ObjectCache[T]:
        cache, known = ObjectCache(view), self._last.get(resource.plural, {})
        listed = dict[tuple[str, str], Reduced[T]]()
        for body in await self._kube.list(resource, labels=labels):
            version = body["metadata"].get("uid", ""), body["metadata"].get("resourceVersion", "")
            listed[version] = known.get(version) or cache.reduce(body)
        self._last[resource.plural] = listed
        cache.replace({reduced.name: reduced for reduced in listed.values()}, 0)
        return cache
