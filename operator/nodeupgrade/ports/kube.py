"""The Kubernetes API: raw JSON for everybody's objects, typed access to our own.

Pods and Nodes stay raw JSON on purpose: typed models reject what they do not know, and a tool that bridges
ten years of Kubernetes meets a lot of that.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.domain.errors import NodeUpgradeError, Transient


class NotFoundError(NodeUpgradeError):
    """The object does not exist."""


class ConflictError(NodeUpgradeError):
    """The object exists already, or is no longer the one the caller read: read again, decide again."""


class RejectedError(NodeUpgradeError):
    """The API server refuses the request for good: invalid, forbidden or unknown."""


class ForbiddenError(RejectedError):
    """The API server does not know who asks, or does not let them (HTTP 401 or 403)."""


class InvalidError(RejectedError):
    """The API server refuses what the request says (HTTP 400 or 422)."""


class NoClusterError(NodeUpgradeError):
    """Nothing says which API server to talk to, or as whom."""


class ExpiredError(NodeUpgradeError):
    """What a watch or a list was to go on from has been forgotten (HTTP 410): list anew."""


class UnavailableError(Transient):
    """The API server did not answer in time, or asked to come back after so many seconds (0: whenever)."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server keeps it; ``namespace`` is None for cluster-scoped kinds."""

    group: str
    version: str
    plural: str
    kind: str
    namespace: str | None = None

    @property
    def api_version(self) -> str:
        """The value of an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def within(self, namespace: str) -> "Resource":
        """Return the same kind in one namespace."""
        return replace(self, namespace=namespace)


NODES = Resource("", "v1", "nodes", "Node")
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
UPGRADES = Resource("nodeupgrade.dev", "v1alpha1", "nodeupgrades", "NodeUpgrade")
TASKS = Resource("nodeupgrade.dev", "v1alpha1", "nodeupgradetasks", "NodeUpgradeTask")


class WatchEventType(StrEnum):
    """What a watch tells, in the API's own words."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing happened up to the object's resourceVersion, and the object has nothing else (Kubernetes ≥ 1.16)."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch; a deleted object is as it was last, with the resourceVersion of its deletion."""

    change: WatchEventType
    body: Json


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list: objects, and the resourceVersion at which the list as a whole was true."""

    items: tuple[Json, ...]
    resource_version: str


class KubeApi(Protocol):
    """Objects by kind and name, as raw JSON.

    Every method raises UnavailableError when the API server cannot be reached for a while and RejectedError
    when it will not do it. A write with ``resource_version`` or ``uid`` happens only to that very object, else
    ConflictError.
    """

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object, or raise NotFoundError."""
        ...

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Json]:
        """Read all objects with these labels and fields; without a namespace, those of all namespaces."""
        ...

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """Read all objects page by page, as they are at one moment no earlier than the call.

        Raises:
            ExpiredError: It took so long that the API server forgot that moment; begin anew.
        """
        ...

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow what happens to all objects with these labels and fields after a resourceVersion.

        It ends now and then, without an error; then go on from the resourceVersion of the last event. No event
        is told twice, none is left out, and an object that loses the labels counts as deleted. With an empty
        resourceVersion it first tells of every object that is there, as added and in any order, and then goes on from
        the greatest of their resourceVersions.

        Raises:
            ExpiredError: The API server has forgotten what happened since then; list anew.
        """
        ...

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object, or raise ConflictError if its name is taken."""
        ...

    async def merge(
        self,
        resource: Resource,
        name: str,
        patch: Json,
        *,
        resource_version: str | None = None,
        field_manager: str | None = None,
        dry_run: bool = False,
    ) -> Json:
        """Merge a patch into an object (RFC 7386: null removes), status excepted.

        Args:
            resource: The kind of object.
            name: The object.
            patch: What changes.
            resource_version: The state the patch was made for.
            field_manager: Under which name ``metadata.managedFields`` records who changed what.
            dry_run: Check it and answer as if it were done, but change nothing.
        """
        ...

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace the whole status of an object."""
        ...

    async def delete(self, resource: Resource, name: str, *, uid: str | None = None) -> None:
        """Ask for an object's deletion; an object that is gone already is fine."""
        ...

    async def server_version(self) -> str:
        """The API server's ``gitVersion``, for example ``v1.33.13``."""
        ...


class NodeSideKube(Protocol):
    """All that the node side needs from the API server."""

    async def get_task(self, name: str) -> Task:
        """Read a NodeUpgradeTask."""
        ...

    async def patch_task_status(self, name: str, status: TaskStatus) -> Task:
        """Replace the task's status."""
        ...

    async def get_node(self, name: str) -> Json:
        """Read a Node."""
        ...

    async def list_pods_on_node(self, node: str) -> list[Json]:
        """Read all pods bound to a node, finished ones included."""
        ...

    async def list_services(self, namespaces: Iterable[str]) -> list[Json]:
        """Read the Services of these namespaces, and who answers for them.

        That is, their EndpointSlices; or their Endpoints from an API server before 1.18, whose controllers make none.
        """
        ...

    def watch_pods_on_node(self, node: str, *, resource_version: str = "") -> AsyncGenerator[WatchEvent, None]:
        """Follow the pods bound to a node, as KubeApi.watch does; without a resourceVersion, all that are there first.

        Raises:
            ExpiredError: The API server has forgotten what happened since then; begin anew.
        """
        ...

    async def emit_event(self, event: "Event") -> None:
        """Record an event; one recorded before is counted up, and a failure to record is no error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling about an object (``regarding`` is the object's JSON or a stub of it)."""

    regarding: Json
    reason: Reason
    message: str
    warning: bool = False
