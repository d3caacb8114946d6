"""Machines of Cluster API as its API server shows them, and the Nodes that they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.capi.requests import CONTROL_PLANE_LABEL, DEPLOYMENT_LABEL, Metadata, Raw, checked_name, version_of
from nodeupgrade.cluster.kube_api import Resource

MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine")

_UPDATING = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
_PENDING = "runtime.cluster.x-k8s.io/pending-hooks"
_MACHINE = "cluster.x-k8s.io/machine"
_NAMESPACE = "cluster.x-k8s.io/cluster-namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One Machine."""

    namespace: str
    name: str
    version: str | None
    deployment: str | None  # the MachineDeployment; None if it is of another kind
    control_plane: bool
    node: str | None  # its Node; None if it has none yet
    updating: bool  # whether Cluster API wants it to be updated in place, and waits for that
    deleting: bool

    def __str__(self) -> str:
        return f"Machine {self.namespace}/{self.name}"

    def is_node(self, node: Json) -> bool:
        """Report whether a Node is this Machine, and not one of the same name in another cluster."""
        annotations: Mapping[str, str] = node["metadata"].get("annotations") or {}
        return (annotations.get(_MACHINE), annotations.get(_NAMESPACE)) == (self.name, self.namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeRef:
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    node_ref: _NodeRef = _NodeRef()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    metadata: Metadata
    spec: Raw
    status: _Status = field(default_factory=_Status)


def view_machine(body: Json) -> Machine:
    """Return the view of a Machine.

    Raises:
        MalformedObjectError: A field has a value of the wrong type.
    """
    read = from_json(_Body, body)
    metadata, node = read.metadata, read.status.node_ref.name
    deployment = metadata.labels.get(DEPLOYMENT_LABEL)
    hooks = metadata.annotations.get(_PENDING, "").split(",")
    return Machine(
        namespace=metadata.namespace,
        name=metadata.name,
        version=version_of(read.spec, "spec"),
        deployment=deployment or None,
        control_plane=CONTROL_PLANE_LABEL in metadata.labels,
        node=checked_name(node, "status.nodeRef.name") if node else None,
        updating=_UPDATING in metadata.annotations and "UpdateMachine" in hooks,
        deleting=metadata.deletion_timestamp is not None,
    )
