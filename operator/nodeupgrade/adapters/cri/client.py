"""Client for the part of the Container Runtime Interface (CRI) that this project uses."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from google.protobuf.message import Message

from nodeupgrade.adapters.cri._pb import runtime_pb2 as pb
from nodeupgrade.adapters.cri.connection import Call, Connection, UnaryMethod, Unimplemented, framed
from nodeupgrade.adapters.proc.processes import ProcessTable, Stat
from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    Process,
    SandboxInstance,
    StoredHashes,
)
from nodeupgrade.kubelethash import HashValue

A = TypeVar("A", bound=Message)


class CriVersion(StrEnum):
    """Versions of the CRI, newest first. Their messages are the same; only the name of the service differs."""

    V1 = "v1"
    V1ALPHA2 = "v1alpha2"


@dataclass(eq=False, slots=True)
class CriClient:
    """Calls a runtime through the newest CRI version that it serves."""

    connection: Connection  # to the runtime's socket
    _served: tuple[CriVersion, ...] = ()

    def served(self) -> tuple[CriVersion, ...]:
        """Return the CRI versions that the runtime serves, newest first. Cached.

        Raises:
            Transient: the runtime does not answer.
            StepFailed: the runtime serves no CRI version.
        """
        if not self._served:
            served = tuple(version for version in CriVersion if self._serves(version))
            if not served:
                raise StepFailed("cannot ask the runtime because it serves no CRI; is its CRI plugin disabled?")
            self._served = served
        return self._served

    def version(self) -> pb.VersionResponse:
        """Return name and version of the runtime."""
        return self.connection.call(self._method("Version", pb.VersionResponse), pb.VersionRequest())

    def cgroup_driver(self) -> str | None:
        """Return the cgroup driver that the runtime reports to kubelets; ``None`` if it reports none (containerd 1)."""
        try:
            answer = self.connection.call(
                self._method("RuntimeConfig", pb.RuntimeConfigResponse), pb.RuntimeConfigRequest()
            )
        except Unimplemented:
            return None
        return pb.CgroupDriver.Name(answer.linux.cgroup_driver).lower() if answer.HasField("linux") else None

    def image_filesystem(self) -> str | None:
        """Return the directory whose filesystem kubelets watch as that of images; ``None`` if none is reported.

        Of several, one for each snapshotter of containerd 2, kubelets take the first.
        """
        method = UnaryMethod(f"/runtime.{self.served()[0]}.ImageService/ImageFsInfo", pb.ImageFsInfoResponse)
        try:
            answer = self.connection.call(method, pb.ImageFsInfoRequest())
        except Unimplemented:
            return None
        return next((each.fs_id.mountpoint for each in answer.image_filesystems), "") or None

    def status_info(self) -> dict[str, str]:
        """Return the runtime's verbose status: JSON texts by topic, whose format the CRI does not specify."""
        method = self._method("Status", pb.StatusResponse)
        return dict(self.connection.call(method, pb.StatusRequest(verbose=True)).info)

    def listing_of_running(self) -> Call:
        """Return the call that lists running containers, encoded for the wire.

        Exited containers are left out: they may carry hashes of any earlier kubelet, and no kubelet compares them.
        """
        running = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(state=running))
        return Call(path=self._method("ListContainers", pb.ListContainersResponse).path, frame=framed(request))

    def start_containers(self, *, timeout: float | None = None) -> Callable[[], pb.ListContainersResponse]:
        """Request all containers, running or not, without waiting; call the returned function to get them."""
        method = self._method("ListContainers", pb.ListContainersResponse)
        return self.connection.start(method, pb.ListContainersRequest(), timeout=timeout)

    def start_sandboxes(self) -> Callable[[], pb.ListPodSandboxResponse]:
        """Request all pod sandboxes, ready or not, without waiting; call the returned function to get them."""
        method = self._method("ListPodSandbox", pb.ListPodSandboxResponse)
        return self.connection.start(method, pb.ListPodSandboxRequest())

    def container_statuses(self, ids: Iterable[str], *, verbose: bool = False) -> dict[str, pb.ContainerStatusResponse]:
        """Return statuses by container id. Containers that are gone are left out."""
        requests = {i: pb.ContainerStatusRequest(container_id=i, verbose=verbose) for i in ids}
        return self._each(self._method("ContainerStatus", pb.ContainerStatusResponse), requests)

    def sandbox_statuses(self, ids: Iterable[str], *, verbose: bool = False) -> dict[str, pb.PodSandboxStatusResponse]:
        """Return statuses by sandbox id. Sandboxes that are gone are left out."""
        requests = {i: pb.PodSandboxStatusRequest(pod_sandbox_id=i, verbose=verbose) for i in ids}
        return self._each(self._method("PodSandboxStatus", pb.PodSandboxStatusResponse), requests)

    def forget_served(self) -> None:
        """Ask anew for the CRI versions that the runtime serves: a restarted one may serve others."""
        self._served = ()

    def _each(self, method: UnaryMethod[A], requests: Mapping[str, Message]) -> dict[str, A]:
        answers = self.connection.ask_all(method, requests.values())
        return {i: answer for i, answer in zip(requests, answers, strict=True) if answer is not None}

    def _serves(self, version: CriVersion) -> bool:
        try:
            self.connection.call(_method(version, "Version", pb.VersionResponse), pb.VersionRequest())
        except Unimplemented:
            return False
        return True

    def _method(self, name: str, answer: type[A]) -> UnaryMethod[A]:
        return _method(self.served()[0], name, answer)


def _method(version: CriVersion, name: str, answer: type[A]) -> UnaryMethod[A]:
    return UnaryMethod(f"/runtime.{version}.RuntimeService/{name}", answer)


# The annotations in which kubelets store a container's hashes, wherever a runtime keeps them.

HASH_KEY = "io.kubernetes.container.hash"
HASH_WITHOUT_RESOURCES_KEY = "io.kubernetes.container.hashWithoutResources"
# strconv.FormatUint(hash, 16); no kubelet writes a value of any other form.
HASH = re.compile(r"[0-9a-f]{1,16}")


def changed(
    stored: StoredHashes, wanted: StoredHashes, names: tuple[str, str] = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
) -> Iterator[tuple[str, HashValue, HashValue]]:
    """Return name, old and new value of each hash that changes: those that both sides have, and that differ.

    Args:
        stored: the present hashes.
        wanted: the hashes to be.
        names: those of the two hashes, where the runtime keeps them under other names.

    Raises:
        ValueError: a wanted value is not a hash.
    """
    pairs = ((stored.container, wanted.container), (stored.without_resources, wanted.without_resources))
    for name, (old, new) in zip(names, pairs, strict=True):
        if old is None or new is None or old == new:
            continue
        if not HASH.fullmatch(new):
            raise ValueError(f"the value {new!r} wanted for {name} is no hash")
        yield name, old, new


# A container's hashes, as the CRI serves them.


def served_hashes(
    annotations: Mapping[str, str], names: tuple[str, str] = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
) -> StoredHashes:
    """Return the hashes in the annotations, or labels, that a runtime serves; ``names`` as in changed()."""
    container, without_resources = (annotations.get(name) for name in names)
    return StoredHashes(
        container=HashValue(container) if container else None,
        without_resources=HashValue(without_resources) if without_resources else None,
    )


def served_annotation(key: str, value: str) -> bytes:
    """Return an annotation as encoded in a CRI response: in a protobuf map entry, the value follows its key."""
    return key.encode("ascii") + b"\x12" + bytes([len(value)]) + value.encode("ascii")


# Builds the parts of an Inventory from the answers of the CRI; which processes there are, each adapter knows.

NAME_LABEL = "io.kubernetes.container.name"
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


def running(containers: Iterable[pb.Container], sandboxes: Iterable[pb.PodSandbox]) -> set[str]:
    """Return the ids of running containers and ready sandboxes, which are those with a process."""
    return {
        *(container.id for container in containers if container.state == pb.CONTAINER_RUNNING),
        *(sandbox.id for sandbox in sandboxes if sandbox.state == pb.SANDBOX_READY),
    }


def is_running(container: pb.Container) -> bool:
    """Report whether the runtime says that a container runs."""
    return container.state == pb.CONTAINER_RUNNING


def is_ready(sandbox: pb.PodSandbox) -> bool:
    """Report whether the runtime says that a sandbox is ready."""
    return sandbox.state == pb.SANDBOX_READY


def in_order(containers: Iterable[ContainerInstance], sandboxes: Iterable[SandboxInstance]) -> Inventory:
    """Return the inventory, sorted so that its order does not depend on the runtime."""
    return Inventory(
        containers=tuple(sorted(containers, key=lambda c: (c.pod, c.created_at, c.id))),
        sandboxes=tuple(sorted(sandboxes, key=lambda s: (s.pod, s.created_at, s.id))),
    )


def inventory_of(
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
        listing: all records.
        statuses: those that were requested.
        processes: the node's.
        monitor: returns the monitor of a container, by its first process and its id.
        pod_monitor: returns the monitor of a sandbox in the same way.
        host_network: reports whether a sandbox is in the node's network.
        created: when containers were created, where the list does not tell.
    """
    pods = {sandbox.id: pod_of(sandbox) for sandbox in listing.sandboxes}
    containers, sandboxes = [], []
    for item in listing.containers:
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
    return in_order(containers, sandboxes)


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


def pod_of(sandbox: pb.PodSandbox) -> PodRef:
    """Return the pod of a sandbox."""
    metadata = sandbox.metadata
    return PodRef(namespace=metadata.namespace, name=metadata.name, uid=PodUid(metadata.uid))


def _pod_by_labels(item: pb.Container) -> PodRef:
    return PodRef(
        namespace=item.labels.get("io.kubernetes.pod.namespace", ""),
        name=item.labels.get("io.kubernetes.pod.name", ""),
        uid=PodUid(item.labels.get("io.kubernetes.pod.uid", "")),
    )
