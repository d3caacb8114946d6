"""Builds the parts of an Inventory from the answers of the CRI; which processes there are, each adapter knows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.hashes import served_hashes
from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.domain.node.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    Process,
    SandboxInstance,
)

NAME_LABEL = "io.kubernetes.container.name"
CONFIG_SOURCE = "kubernetes.io/config.source"
CONFIG_HASH = "kubernetes.io/config.hash"

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

    def pods(self) -> dict[str, PodRef]:
        """Return the pods by sandbox id."""
        return {sandbox.id: pod_of(sandbox) for sandbox in self.sandboxes}


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


def is_running(container: cri.Container) -> bool:
    """Report whether the runtime says that a container runs."""
    return container.state == cri.CONTAINER_RUNNING


def is_ready(sandbox: cri.PodSandbox) -> bool:
    """Report whether the runtime says that a sandbox is ready."""
    return sandbox.state == cri.SANDBOX_READY


def in_order(containers: Iterable[ContainerInstance], sandboxes: Iterable[SandboxInstance]) -> Inventory:
    """Return the inventory, sorted so that its order does not depend on the runtime."""
    return Inventory(
        containers=tuple(sorted(containers, key=lambda c: (c.pod, c.created_at, c.id))),
        sandboxes=tuple(sorted(sandboxes, key=lambda s: (s.pod, s.created_at, s.id))),
    )


def container_of(
    item: cri.Container,
    status: cri.ContainerStatusResponse | None,
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


def sandbox_of(
    item: cri.PodSandbox,
    status: cri.PodSandboxStatusResponse | None,
    *,
    host_network: bool,
    process: Process | None,
    monitor: Process | None,
) -> SandboxInstance:
    """Build a sandbox from its record, and its address from its status if that was requested."""
    return SandboxInstance(
        id=SandboxId(item.id),
        pod=pod_of(item),
        ready=is_ready(item),
        attempt=item.metadata.attempt,
        created_at=item.created_at,
        host_network=host_network,
        process=process,
        monitor=monitor,
        ip=status.status.network.ip if status else None,
        config_source=item.annotations.get(CONFIG_SOURCE),
        static_hash=item.annotations.get(CONFIG_HASH),
    )


def uses_host_network(status: cri.PodSandboxStatusResponse) -> bool:
    """Report whether a sandbox is in the node's network."""
    return status.status.linux.namespaces.options.network == cri.NODE


def pod_of(sandbox: cri.PodSandbox) -> PodRef:
    """Return the pod of a sandbox."""
    metadata = sandbox.metadata
    return PodRef(namespace=metadata.namespace, name=metadata.name, uid=PodUid(metadata.uid))


def _pod_by_labels(item: cri.Container) -> PodRef:
    return PodRef(
        namespace=item.labels.get("io.kubernetes.pod.namespace", ""),
        name=item.labels.get("io.kubernetes.pod.name", ""),
        uid=PodUid(item.labels.get("io.kubernetes.pod.uid", "")),
    )
