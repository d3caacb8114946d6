"""The inventory: every container and sandbox that a runtime holds at one moment, with what identifies each instance.

Whether something restarted is decided on these values only. A restart count in the API can stay at zero although
everything was replaced, for example when a static pod gets a new UID.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.processes.process import Process


class ContainerState(StrEnum):
    """Container states of the CRI."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHashes:
    """The hash annotations of one container, as stored; ``None`` where the annotation is absent."""

    container: HashValue | None  # value of ``io.kubernetes.container.hash``
    # value of ``io.kubernetes.container.hashWithoutResources`` (kubelets 1.27–1.30, gate InPlacePodVerticalScaling)
    without_resources: HashValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInstance:
    """One container as the runtime reports it."""

    id: ContainerId
    name: str
    sandbox_id: SandboxId
    pod: PodRef
    state: ContainerState
    attempt: int  # CRI attempt number; increases when the kubelet recreates the container
    created_at: int  # nanoseconds since the epoch
    hashes: StoredHashes
    started_at: int | None = None  # nanoseconds since the epoch; None where the runtime was not asked
    process: Process | None = None  # the container's init process; None unless it runs
    # the process that supervises it for the runtime. A monitor of its own is always set; a monitor of the whole pod is
    # None where the runtime was not asked.
    monitor: Process | None = None
    exit_code: int | None = None  # None unless the container exited and the runtime was asked

    @property
    def label(self) -> str:
        """``namespace/pod/container``, as shown to people."""
        return f"{self.pod}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInstance:
    """One pod sandbox as the runtime reports it."""

    id: SandboxId
    pod: PodRef
    ready: bool
    attempt: int
    created_at: int
    host_network: bool
    process: Process | None = None  # the sandbox's (pause) process
    # the process that supervises the pod. Without it, a container looks healthy in the API, but can no longer be
    # stopped, logged or restarted.
    monitor: Process | None = None
    # address that the runtime reports; empty for host-network sandboxes; None where it was not asked
    ip: str | None = None
    config_source: str | None = None
    static_hash: str | None = None  # annotation ``kubernetes.io/config.hash`` of a static pod

    @property
    def is_static(self) -> bool:
        """Report whether the pod comes from a manifest (file or URL) rather than from the API."""
        return self.config_source in {"file", "http"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything a runtime holds for Kubernetes, in a stable order."""

    containers: tuple[ContainerInstance, ...] = field(default=())
    sandboxes: tuple[SandboxInstance, ...] = field(default=())

    def running(self) -> Iterator[ContainerInstance]:
        """Yield the containers that run."""
        return (c for c in self.containers if c.state is ContainerState.RUNNING)

    def under_other_monitors(self) -> Iterator[tuple[ContainerInstance, Process]]:
        """Yield the containers that run under another monitor than their sandbox, with that monitor."""
        monitors = {s.id: s.monitor for s in self.sandboxes}
        for container in self.running():
            of_pod = monitors.get(container.sandbox_id)
            if container.monitor is not None and of_pod not in {None, container.monitor}:
                yield container, container.monitor

    def left_over(self) -> frozenset[ContainerId]:
        """Return the containers that were created, never started, and replaced by a later one, which runs.

        A kubelet creates another container if its call to start one was lost, or if it was restarted before that call.
        It keeps the first as the last dead one of its name, perhaps for good (``MaxPerPodContainer``; 1.15 to 1.37).
        """
        runs = {(c.pod.uid, c.name): c.created_at for c in self.running()}
        return frozenset(
            c.id
            for c in self.containers
            if c.state is ContainerState.CREATED and c.created_at < runs.get((c.pod.uid, c.name), 0)
        )

    def without(self, pods: frozenset[PodUid]) -> "Inventory":
        """Return the inventory without these pods."""
        return Inventory(
            containers=tuple(c for c in self.containers if c.pod.uid not in pods),
            sandboxes=tuple(s for s in self.sandboxes if s.pod.uid not in pods),
        )

    def shared(self) -> frozenset[Process]:
        """Return the processes that belong to more than one instance.

        In a virtual machine or a kernel of its own (Kata, gVisor), a pod has one process for all containers, which does
        not prove that any of them runs.
        """
        shown = Counter((*(c.process for c in self.containers), *(s.process for s in self.sandboxes)))
        return frozenset(process for process, times in shown.items() if process is not None and times > 1)

    def container(self, container_id: ContainerId) -> ContainerInstance | None:
        """Return the container with this id, if the runtime still holds it."""
        return next((c for c in self.containers if c.id == container_id), None)

    def sandbox(self, sandbox_id: SandboxId) -> SandboxInstance | None:
        """Return the sandbox with this id, if the runtime still holds it."""
        return next((s for s in self.sandboxes if s.id == sandbox_id), None)
