"""Typed access to API objects, and emission of events, on top of any KubeApi."""

import hashlib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from nodeupgrade.api.json import Json, timestamp, to_json
from nodeupgrade.api.printable import stored
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.cluster.kube_api import (
    API_SERVICES,
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    SERVICES,
    TASKS,
    VALIDATING_WEBHOOKS,
    ConflictError,
    Event,
    Keep,
    KubeApi,
    Resource,
    WatchEvent,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

EVENT_NAMESPACE = "default"
"""The namespace in which Kubernetes keeps events about cluster-scoped objects."""

EVENT_MESSAGE_LIMIT = 1024
"""Maximum length, in characters, of an event message that the API server accepts."""


class TypedKube(KubeApi, Protocol):
    """What ``NodeSideKube`` describes, for the control plane too, implemented with the raw methods."""

    def utcnow(self) -> datetime:
        """Return the wall-clock time, UTC, for the timestamps of events."""
        ...

    async def get_task(self, name: str) -> Task:
        return parse_task(await self.get(TASKS, name))

    async def patch_task_status(self, name: str, status: TaskStatus) -> Task:
        return parse_task(await self.replace_status(TASKS, name, to_json(status)))

    async def get_node(self, name: str) -> Json:
        return await self.get(NODES, name)

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        pods = await self.list(PODS, fields={"spec.nodeName": node})
        return pods if keep is None else [*map(keep, pods)]

    async def list_services(self, namespaces: Iterable[str]) -> list[Json]:
        kinds = (SERVICES, endpoints_kind(await self.server_version()))
        return [body for each in namespaces for kind in kinds for body in await self.list(kind.within(each))]

    async def list_dependants(self, namespaces: Iterable[str]) -> list[Json]:
        server = KubeletVersion.parse(await self.server_version())
        budgets = _served(DISRUPTION_BUDGETS, server, history.DISRUPTION_BUDGETS_STABLE)
        hooks = (_served(kind, server, history.WEBHOOKS_STABLE) for kind in (VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS))
        kinds = (*(budgets.within(each) for each in namespaces), *hooks, API_SERVICES)
        return [body for kind in kinds for body in await self.list(kind)]

    def watch_pods_on_node(self, node: str, *, resource_version: str = "") -> AsyncGenerator[WatchEvent, None]:
        return self.watch(PODS, resource_version=resource_version, fields={"spec.nodeName": node})

    async def emit_event(self, event: Event) -> bool:
        """Create an event whose name is derived from its content, so that a repetition increments its count.

        Events are for people, so errors of the API server stop nothing. Returns whether it was recorded.
        """
        body = event_object(event, self.utcnow())
        try:
            try:
                await self.create(EVENTS.within(EVENT_NAMESPACE), body)
            except ConflictError:
                await self._increment(body)
        except NodeUpgradeError:
            return False
        return True

    async def _increment(self, body: Json) -> None:
        events, name = EVENTS.within(EVENT_NAMESPACE), body["metadata"]["name"]
        recorded = await self.get(events, name)
        patch = {"count": recorded.get("count", 1) + 1, "lastTimestamp": body["lastTimestamp"]}
        await self.merge(events, name, patch)


def endpoints_kind(server: str) -> Resource:
    """Return the resource in which an API server of this version keeps the endpoints of Services."""
    version = KubeletVersion.parse(server)
    if not history.ENDPOINT_SLICES_MADE.applies_to(version):
        return ENDPOINTS
    return _served(ENDPOINT_SLICES, version, history.ENDPOINT_SLICES_STABLE)


def _served(resource: Resource, server: KubeletVersion, stable: history.ServerChange) -> Resource:
    """Return the version of a resource that an API server serves: v1 once it is stable, before that v1beta1."""
    return resource if stable.applies_to(server) else replace(resource, version="v1beta1")


def event_object(event: Event, now: datetime) -> Json:
    """Return a core/v1 Event object, named after its object and a digest of its content."""
    metadata = event.regarding["metadata"]
    content = "\0".join((metadata.get("uid", ""), event.reason, event.message))
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{metadata['name'][:200]}.{digest}", "namespace": EVENT_NAMESPACE},
        "involvedObject": {
            "apiVersion": event.regarding["apiVersion"],
            "kind": event.regarding["kind"],
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason.value,
        "message": stored(event.message, EVENT_MESSAGE_LIMIT),
        "source": {"component": "nodeupgrade"},
        "firstTimestamp": timestamp(now.replace(microsecond=0)),
        "lastTimestamp": timestamp(now.replace(microsecond=0)),
        "count": 1,
    }
