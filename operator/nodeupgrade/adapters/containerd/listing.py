"""Builds the Inventory of a node from the answers of the CRI and containerd, and from ``/proc``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.adapters.containerd.metadata import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.proc import INIT, ProcessTable
from nodeupgrade.adapters.proc.table import Stat
from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.domain.node.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    Process,
    SandboxInstance,
    StoredHashes,
)
from nodeupgrade.kubelethash import HashValue

NAME_LABEL = "io.kubernetes.container.name"
CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"
SHIM_OF_PODS = "containerd-shim-runc-v2"
"""The shim that serves a whole pod. Older shims serve one container each; containers in virtual machines are not
children of their shim."""
# The kernel keeps only the first 15 bytes of a program's name, which all shims share.
SHIM = "containerd-shim"

STATES = {
    cri.CONTAINER_CREATED: ContainerState.CREATED,
    cri.CONTAINER_RUNNING: ContainerState.RUNNING,
    cri.CONTAINER_EXITED: ContainerState.EXITED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All containers and sandboxes, listed at the same moment.

    Attributes:
        pids: PID of the first process, by container or sandbox id; may include containers that are gone.
    """

    containers: tuple[cri.Container, ...]
    sandboxes: tuple[cri.PodSandbox, ...]
    pids: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Statuses by id, which cost one call per item; empty if they were not requested."""

    containers: Mapping[str, cri.ContainerStatusResponse] = field(default_factory=dict)
    sandboxes: Mapping[str, cri.PodSandboxStatusResponse] = field(default_factory=dict)


def running(containers: Iterable[cri.Container], sandboxes: Iterable[cri.PodSandbox]) -> set[str]:
    """Return the ids of running containers and ready sandboxes, which are those with a process."""
    return {
        *(container.id for container in containers if container.state == cri.CONTAINER_RUNNING),
        *(sandbox.id for sandbox in sandboxes if sandbox.state == cri.SANDBOX_READY),
    }


def to_inventory(listing: Listing, statuses: Statuses, processes: ProcessTable) -> Inventory:
    """Build the inventory, sorted so that its order does not depend on the runtime."""
    pods = {s.id: _pod_of(s) for s in listing.sandboxes}
    containers = [_container(c, listing, statuses, processes, pods) for c in listing.containers]
    node_network = processes.network(INIT)
    sandboxes = [_sandbox(s, listing, statuses, processes, node_network) for s in listing.sandboxes]
    return Inventory(
        containers=tuple(sorted(containers, key=lambda c: (c.pod, c.created_at, c.id))),
        sandboxes=tuple(sorted(sandboxes, key=lambda s: (s.pod, s.created_at, s.id))),
    )


def _pod_of(sandbox: cri.PodSandbox) -> PodRef:
    metadata = sandbox.metadata
    return PodRef(namespace=metadata.namespace, name=metadata.name, uid=PodUid(metadata.uid))


def _container(
    item: cri.Container, listing: Listing, statuses: Statuses, processes: ProcessTable, pods: Mapping[str, PodRef]
) -> ContainerInstance:
    state = STATES.get(item.state, ContainerState.UNKNOWN)
    status = statuses.containers.get(item.id)
    stat = processes.stat(listing.pids.get(item.id, 0)) if state is ContainerState.RUNNING else None
    return ContainerInstance(
        id=ContainerId(item.id),
        name=item.labels.get(NAME_LABEL, item.metadata.name),
        sandbox_id=SandboxId(item.pod_sandbox_id),
        pod=pods.get(item.pod_sandbox_id) or _pod_by_labels(item),
        state=state,
        attempt=item.metadata.attempt,
        created_at=item.created_at,
        hashes=StoredHashes(
            container=_hash(item.annotations, HASH_KEY),
            without_resources=_hash(item.annotations, HASH_WITHOUT_RESOURCES_KEY),
        ),
        started_at=(status.status.started_at or None) if status else None,
        process=None if stat is None else stat.process,
        monitor=_shim_of_pods(stat, processes) if status and stat else None,
        exit_code=status.status.exit_code if status and state is ContainerState.EXITED else None,
    )


def _shim_of_pods(stat: Stat, processes: ProcessTable) -> Process | None:
    """Return the parent shim of a process, if it is of the kind that serves a whole pod."""
    parent = processes.stat(stat.parent)
    arguments = processes.arguments(stat.parent) if parent is not None and parent.command == SHIM else None
    return parent.process if parent and arguments and PurePosixPath(arguments[0]).name == SHIM_OF_PODS else None


def _sandbox(
    item: cri.PodSandbox, listing: Listing, statuses: Statuses, processes: ProcessTable, node_network: str | None
) -> SandboxInstance:
    ready = item.state == cri.SANDBOX_READY
    stat = processes.stat(listing.pids.get(item.id, 0)) if ready else None
    # The shim starts the sandbox's first process and adopts orphans; another parent means that the shim died.
    parent = processes.stat(stat.parent) if stat else None
    status = statuses.sandboxes.get(item.id)
    if status:
        host_network = status.status.linux.namespaces.options.network == cri.NODE
    else:
        host_network = stat is not None and processes.network(stat.pid) == node_network
    return SandboxInstance(
        id=SandboxId(item.id),
        pod=_pod_of(item),
        ready=ready,
        attempt=item.metadata.attempt,
        created_at=item.created_at,
        host_network=host_network,
        process=stat.process if stat else None,
        monitor=parent.process if parent and parent.command == SHIM else None,
        ip=status.status.network.ip if status else None,
        config_source=item.annotations.get(CONFIG_SOURCE),
        static_hash=item.annotations.get(CONFIG_HASH),
    )


def _pod_by_labels(item: cri.Container) -> PodRef:
    return PodRef(
        namespace=item.labels.get("io.kubernetes.pod.namespace", ""),
        name=item.labels.get("io.kubernetes.pod.name", ""),
        uid=PodUid(item.labels.get("io.kubernetes.pod.uid", "")),
    )


def _hash(annotations: Mapping[str, str], key: str) -> HashValue | None:
    value = annotations.get(key)
    return HashValue(value) if value else None
