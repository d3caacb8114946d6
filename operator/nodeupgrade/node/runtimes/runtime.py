"""The ports to the container runtime of one node."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeAtWork,
    RuntimeInfo,
    RuntimeKind,
    RuntimeProcess,
)
from nodeupgrade.node.runtimes.inventory import Inventory, StoredHashes


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeImage:
    """Stored metadata of one container, byte for byte, so that it can be restored exactly."""

    container_id: ContainerId
    encoding: str  # the runtime's type tag for the bytes; empty if it has none
    data: bytes  # the bytes
    hashes: StoredHashes  # the hash annotations read from these bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClients:
    """The containers that use the runtime's sockets.

    A starting runtime replaces the file of its socket. A container that has mounted the directory finds the new file;
    one that has mounted the file keeps the old one, at which no process listens, until it is restarted. Connections end
    with the runtime in any case; most programs reconnect, some exit.
    """

    # containers that have mounted the file of a socket that a restart replaces, with the paths of these sockets
    mounted: Mapping[ContainerId, tuple[str, ...]] = field(default_factory=dict)
    connected: frozenset[ContainerId] = frozenset()  # containers with a process that is connected to the runtime
    unknown: str = ""  # why the connections could not be read; empty if they could


class RuntimeView(Protocol):
    """Inspects a runtime, and a restart of it ahead of time. Every call is bounded in time.

    All methods may raise Transient if the runtime does not answer.
    """

    @property
    def kind(self) -> RuntimeKind:
        """The properties that this runtime has on every node; needs no connection."""

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Return how the program on disk would start next; ``running`` is the process that serves now, if known."""

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Return the hazards of a restart, by this runtime's version and state."""

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        """Return how a run's restart can be made gentler without changing anything else, or why it cannot."""

    def info(self) -> RuntimeInfo:
        """Return name, versions, cgroup driver and places of the running runtime, as it reports them."""

    def inventory(self, *, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        """List every container and sandbox of Kubernetes.

        Args:
            full: include start times, exit codes and sandbox addresses, which cost a call per item.
            of: include the same, but only of these pods.
            addresses: include the addresses of sandboxes that are ready.
        """

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Read the stored (not the served) metadata. Containers unknown to the runtime are left out.

        Raises:
            MetadataConflict: the metadata of a container has an unknown form and cannot be rewritten.
            StepFailed: it cannot be read.
        """

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        """Return which of these containers use the sockets of ``running``, the process that serves now, if known."""

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        """Return the processes that still run, according to the kernel; does not ask the runtime."""


class ContainerRuntime(RuntimeView, Protocol):
    """Rewrites stored hashes, too.

    Each implementation writes hashes while the runtime runs or, if the runtime would overwrite them, while it is
    stopped; the next method that needs an answer then starts it. Callers rely on one thing only: after a restart of the
    unit, the runtime serves what was written. See docs/decisions/runtimes.md.
    """

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the stored hashes of each image by the new ones paired with it, and change nothing else.

        Not atomic: if interrupted, any part of the hashes may have changed. Idempotent. A new hash of ``None`` leaves
        that annotation unchanged; a missing annotation is never added.

        Raises:
            MetadataConflict: stored bytes are neither the before-image nor its rewritten form, or a new hash is none.
            ContainerGone: one of the containers is unknown to the runtime.
        """

    def restore(self, image: BeforeImage) -> None:
        """Restore the bytes of ``image``. Idempotent.

        Raises:
            MetadataConflict: the stored document differs from the image in more than its hashes.
            ContainerGone: the container is unknown to the runtime.
        """

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        """Restore containers, which run according to the kernel, that the runtime wrongly shows as ended; return these.

        May restart the runtime; see wait_until_answering(). Idempotent. Does nothing unless ``kind.remembers_ends``.
        """

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return the IDs of containers and sandboxes that this runtime was asked to stop since it started.

        ``log`` has all lines that the runtime logged since then; ``None`` if they do not contain this information.
        """

    def wait_until_answering(self, timeout: float) -> None:
        """Wait until the CRI answers a list call.

        Raises:
            Transient: it does not answer within ``timeout`` seconds.
        """
