"""The Kubernetes API: raw JSON for Kubernetes' objects, typed access to this project's own.

Pods and Nodes stay raw JSON on purpose: typed models reject fields that they do not know, and this project has to work
with ten years of Kubernetes releases.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.errors import NodeUpgradeError, Transient


class NotFoundError(NodeUpgradeError):
    """The object does not exist."""


class ConflictError(NodeUpgradeError):
    """The object already exists, or has changed since the caller read it: read it again and decide again."""


class RejectedError(NodeUpgradeError):
    """The API server rejects the request permanently: invalid, forbidden or unknown."""


class ForbiddenError(RejectedError):
    """The client is not authenticated or not authorized (HTTP 401 or 403)."""


class UnauthenticatedError(ForbiddenError):
    """The API server does not accept the client's credentials (HTTP 401)."""


class InvalidError(RejectedError):
    """The API server rejects the content of the request (HTTP 400 or 422)."""


class TooLargeError(RejectedError):
    """There is more of it than the caller keeps in memory, and nothing was read."""


class NoClusterError(NodeUpgradeError):
    """No API server or no credentials are configured."""


class NoCredentialsError(NoClusterError):
    """The kubeconfig says how to get credentials, and that fails."""


class NotLeadingError(NodeUpgradeError):
    """This process does not lead, or may not lead any more, so it must not write."""


class ExpiredError(NodeUpgradeError):
    """The resourceVersion or continue token has expired (HTTP 410): list again."""


class UnavailableError(Transient):
    """The API server did not answer in time, or asked to retry after ``after`` seconds (0: at any time)."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object and where the API server serves it; without a namespace: cluster-scoped, or all namespaces."""

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

    def as_owner(self, name: str, uid: str) -> Json:
        """Return the owner reference to an object of this kind. It may be deleted before what it owns."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": name,
            "uid": uid,
            "blockOwnerDeletion": False,
        }

    def as_regarding(self, name: str, uid: str) -> Json:
        """Return the part of an object of this kind that an event needs in order to refer to it."""
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name, "uid": uid}}


NODES = Resource("", "v1", "nodes", "Node")
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"
)
ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"
)
READINESS_GUARD = "readiness-guard.nodeupgrade.dev"
NODE_GUARD = "node-guard.nodeupgrade.dev"
FENCE = "operator-fence.nodeupgrade.dev"
"""The admission policy that denies the writes of replicas that do not lead; every denial names it."""
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
UPGRADES = Resource("nodeupgrade.dev", "v1alpha1", "nodeupgrades", "NodeUpgrade")
TASKS = Resource("nodeupgrade.dev", "v1alpha1", "nodeupgradetasks", "NodeUpgradeTask")


Keep: TypeAlias = Callable[[Json], Json]
"""Returns what is kept of an object that is read. It may be called again for the same one."""


class WatchEventType(StrEnum):
    """The type of a watch event, as the API names it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """No more changes up to the object's resourceVersion, which is all the object has (Kubernetes ≥ 1.16)."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch. A deleted object is in its last state, with the resourceVersion of its deletion."""

    change: WatchEventType
    body: Json


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: objects, and the resourceVersion of the list as a whole."""

    items: tuple[Json, ...]
    resource_version: str
    remaining: int = 0  # how many objects follow, as far as the API server counts them


class KubeApi(Protocol):
    """Reads and writes objects as raw JSON.

    Every method raises UnavailableError if the API server cannot be reached for some time, and RejectedError if it
    rejects the request. With ``resource_version`` or ``uid`` as a precondition, a write raises ConflictError unless
    the object matches.
    """

    async def get(self, resource: Resource, name: str) -> Json:
        """Read one object.

        Raises:
            NotFoundError: it does not exist.
        """

    async def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        recent: bool = False,
    ) -> list[Json]:
        """List all objects with these labels and fields; without a namespace, in all namespaces.

        Args:
            resource: the kind.
            labels: those that they must have.
            fields: those that they must have.
            recent: whether a state of some seconds ago will do, which the API server need not read from etcd.

        Raises:
            TooLargeError: a recent state, which comes in one answer, is too large for that.
        """

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """List all objects page by page: a consistent snapshot, no older than the call.

        Raises:
            ExpiredError: it took so long that the snapshot expired; list again.
        """

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Watch all objects with these labels and fields, starting after a resourceVersion.

        The watch ends from time to time without an error; continue from the resourceVersion of the last event. Every
        event arrives exactly once. An object that no longer has the labels counts as deleted. With an empty
        resourceVersion, the watch first reports every existing object as added, in any order, and then continues from
        the greatest of their resourceVersions.

        Raises:
            ExpiredError: the resourceVersion has expired; list again.
        """

    async def create(self, resource: Resource, body: Json) -> Json:
        """Create an object.

        Raises:
            ConflictError: an object of that name exists.
        """

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
        """Apply a JSON merge patch (RFC 7386: null removes) to an object, except to its status.

        Args:
            resource: The kind of object.
            name: The name of the object.
            patch: The changes.
            resource_version: A precondition: the version that the patch was made for.
            field_manager: The manager that ``metadata.managedFields`` records for the change.
            dry_run: Validate the request and answer as if it were carried out, but change nothing.
        """

    async def replace_status(
        self, resource: Resource, name: str, status: Json, *, resource_version: str | None = None
    ) -> Json:
        """Replace an object's status."""

    async def set_condition(
        self, resource: Resource, name: str, kind: str, condition: Json | None, *, resource_version: str | None = None
    ) -> Json:
        """Set one condition in the status of an object of Kubernetes' own, or remove it; all others stay.

        Args:
            resource: The kind of object.
            name: The name of the object.
            kind: The condition's type.
            condition: Its other fields; None to remove it.
            resource_version: A precondition: the version that the condition was read in.
        """

    async def delete(
        self, resource: Resource, name: str, *, uid: str | None = None, resource_version: str | None = None
    ) -> None:
        """Request the deletion of an object, as it is known by UID and version; it is no error if it does not exist."""

    async def server_version(self) -> str:
        """Return the API server's ``gitVersion``, for example ``v1.33.13``."""


class ReviewingKube(KubeApi, Protocol):
    """What a person's client can ask besides, without changing anything."""

    async def try_create(self, resource: Resource, body: Json) -> Json:
        """Have the API server admit an object, and answer as if it were created, but create nothing.

        Raises:
            RejectedError: it would not be created; the message has the words of whoever refuses it.
        """

    async def may(self, verb: str, resource: Resource) -> bool:
        """Report whether the caller has this permission."""


class NodeSideKube(Protocol):
    """Everything the node side needs from the API server."""

    def server_time(self) -> datetime:
        """Return the API server's time, UTC: that of its last answer, and how long that is ago.

        Setting the node's clock does not change it, unless there was no answer yet.
        """

    async def get_task(self, name: str) -> Task:
        """Read a NodeUpgradeTask."""

    async def patch_task_status(self, name: str, status: TaskStatus) -> Task:
        """Replace the task's status."""

    async def get_node(self, name: str) -> Json:
        """Read a Node."""

    async def list_pods_on_node(self, node: str, keep: Keep | None = None) -> list[Json]:
        """List all pods bound to a node, including finished ones; with ``keep``, only that of each.

        Whoever may create or annotate pods decides how large they are together. With ``keep``, that is no obstacle.

        Raises:
            TooLargeError: they, or with ``keep`` one of them, take more than an agent reads.
        """

    async def list_services(self, namespaces: Iterable[str]) -> list[Json]:
        """List the Services in these namespaces, with their EndpointSlices.

        From API servers before 1.18, whose controllers create no EndpointSlices, with their Endpoints instead.
        """

    async def list_dependants(self, namespaces: Iterable[str]) -> list[Json]:
        """List what depends on the readiness of pods in these namespaces.

        These are the PodDisruptionBudgets there, and of the whole cluster the configurations of webhooks and the
        APIServices, which call Services.
        """

    def watch_pods_on_node(self, node: str, *, resource_version: str = "") -> AsyncGenerator[WatchEvent, None]:
        """Watch the pods bound to a node, as KubeApi.watch does; without a resourceVersion, existing pods come first.

        Of these, it may tell only what ``for_watch`` keeps.

        Raises:
            ExpiredError: the resourceVersion has expired; start again.
        """

    async def emit_event(self, event: "Event") -> bool:
        """Record an event, or increase its count if it was recorded before.

        A failure to record is no error; returns whether it was recorded.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event to record about an object; ``regarding`` is the object's JSON, or ``Resource.as_regarding`` of it."""

    regarding: Json
    reason: Reason
    message: str
    warning: bool = False
