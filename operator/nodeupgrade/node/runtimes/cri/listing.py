"""Builds an Inventory from the answers of the CRI; adapters add the processes."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, Stat
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.hash_annotations import served_hashes
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, SandboxInstance

NAME_LABEL = "io.kubernetes.container.name"
UID_LABEL = "io.kubernetes.pod.uid"
CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"

STATES = {
    pb.CONTAINER_CREATED: ContainerState.CREATED,
    pb.CONTAINER_RUNNING: ContainerState.RUNNING,
    pb.CONTAINER_EXITED: ContainerState.EXITED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All containers and sandboxes, listed at the same moment."""

    containers: tuple[pb.Container, ...]
    sandboxes: tuple[pb.PodSandbox, ...]
    # PID of the first process, by container or sandbox id; may include containers that are gone
    pids: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Statuses by id, which cost one call per item; empty if they were not requested."""

    containers: Mapping[str, pb.ContainerStatusResponse] = field(default_factory=dict)
    sandboxes: Mapping[str, pb.PodSandboxStatusResponse] = field(default_factory=dict)
    requested: frozenset[str] = frozenset()  # ids of the containers of which they were


def running(containers: Iterable[pb.Container], sandboxes: Iterable[pb.PodSandbox]) -> set[str]:
    """Return the ids of running containers and ready sandboxes."""
    return {
        *(container.id for container in containers if is_running(container)),
        *(sandbox.id for sandbox in sandboxes if is_ready(sandbox)),
    }


def is_running(container: pb.Container) -> bool:
    """Report whether the runtime says that a container runs."""
    return container.state == pb.CONTAINER_RUNNING


def is_ready(sandbox: pb.PodSandbox) -> bool:
    """Report whether the runtime says that a sandbox is ready."""
    return sandbox.state == pb.SANDBOX_READY


def within(
    pods: Collection[PodUid], containers: Iterable[pb.Container], sandboxes: Iterable[pb.PodSandbox]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the ids of the containers and sandboxes of these pods."""
    of_pods = frozenset(sandbox.id for sandbox in sandboxes if sandbox.metadata.uid in pods)
    of_containers = (c.id for c in containers if c.pod_sandbox_id in of_pods or c.labels.get(UID_LABEL) in pods)
    return frozenset(of_containers), of_pods


def sort_inventory(containers: Iterable[ContainerInstance], sandboxes: Iterable[SandboxInstance]) -> Inventory:
    """Return the inventory, sorted so that its order does not depend on the runtime."""
    return Inventory(
        containers=tuple(sorted(containers, key=lambda c: (c.pod, c.created_at, c.id))),
        sandboxes=tuple(sorted(sandboxes, key=lambda s: (s.pod, s.created_at, s.id))),
    )


def build_inventory(
    listing: Listing,
    statuses: Statuses,
    processes: ProcessTable,
    *,
    monitor: Callable[[Stat, str], Process | None],
    pod_monitor: Callable[[Stat, str], Process | None],
    host_network: Callable[[Stat | None, str], bool],
    created: Mapping[str, int] | None = None,
) -> Inventory:
    """Build the inventory of a node from the answers of the CRI, and from ``/proc``.

    Args:
        monitor: returns the monitor of a container, by its first process and its id.
        pod_monitor: returns the monitor of a sandbox in the same way.
        host_network: reports whether a sandbox is in the node's network.
        created: when containers were created, if the list's times are wrong.
    """
    pods = {sandbox.id: _pod(sandbox) for sandbox in listing.sandboxes}
    containers, sandboxes = [], []
    for item in listing.containers:
        if item.id in statuses.requested and item.id not in statuses.containers:
            continue  # removed since it was listed
        stat = processes.stat(listing.pids.get(item.id, 0)) if is_running(item) else None
        container = container_of(
            item,
            statuses.containers.get(item.id),
            pods,
            process=None if stat is None else stat.process,
            monitor=None if stat is None else monitor(stat, item.id),
        )
        containers.append(replace(container, created_at=(created or {}).get(item.id, container.created_at)))
    for pod in listing.sandboxes:
        stat = processes.stat(listing.pids.get(pod.id, 0)) if is_ready(pod) else None
        status = statuses.sandboxes.get(pod.id)
        sandboxes.append(
            SandboxInstance(
                id=SandboxId(pod.id),
                pod=pods[pod.id],
                ready=is_ready(pod),
                attempt=pod.metadata.attempt,
                created_at=pod.created_at,
                host_network=host_network(stat, pod.id),
                process=None if stat is None else stat.process,
                monitor=None if stat is None else pod_monitor(stat, pod.id),
                ip=status.status.network.ip if status else None,
                config_source=pod.annotations.get(CONFIG_SOURCE),
                static_hash=pod.annotations.get(CONFIG_HASH),
            )
        )
    return sort_inventory(containers, sandboxes)


def container_of(
    item: pb.Container,
    status: pb.ContainerStatusResponse | None,
    pods: Mapping[str, PodRef],
    *,
    process: Process | None,
    monitor: Process | None,
) -> ContainerInstance:
    """Build a container from its record, and from its status if that was requested."""
    state = STATES.get(item.state, ContainerState.UNKNOWN)
    return ContainerInstance(
        id=ContainerId(item.id),
        name=item.labels.get(NAME_LABEL, item.metadata.name),
        sandbox_id=SandboxId(item.pod_sandbox_id),
        pod=pods.get(item.pod_sandbox_id) or _pod_by_labels(item),
        state=state,
        attempt=item.metadata.attempt,
        created_at=item.created_at,
        hashes=served_hashes(item.annotations),
        started_at=(status.status.started_at or None) if status else None,
        process=process,
        monitor=monitor,
        exit_code=status.status.exit_code if status and state is ContainerState.EXITED else None,
    )


def uses_host_network(status: pb.PodSandboxStatusResponse) -> bool:
    """Report whether a sandbox is in the node's network."""
    return status.status.linux.namespaces.options.network == pb.NODE


def _pod(sandbox: pb.PodSandbox) -> PodRef:
    """Return the pod of a sandbox."""
    metadata = sandbox.metadata
    return PodRef(namespace=metadata.namespace, name=metadata.name, uid=PodUid(metadata.uid))


def _pod_by_labels(item: pb.Container) -> PodRef:
    return PodRef(
        namespace=item.labels.get("io.kubernetes.pod.namespace", ""),
        name=item.labels.get("io.kubernetes.pod.name", ""),
        uid=PodUid(item.labels.get(UID_LABEL, "")),
    )
