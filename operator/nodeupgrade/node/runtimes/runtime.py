"""The container runtime of one node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nodeupgrade.api.values import ContainerId
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
from nodeupgrade.node.runtimes.rescue_fragment import RescueFragment
from nodeupgrade.node.runtimes.socket_users import RuntimeClients


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeImage:
    """Stored metadata of one container, byte for byte, so that it can be restored exactly."""

    container_id: ContainerId
    encoding: str  # the runtime's type tag for the bytes; empty if it has none
    data: bytes  # the bytes
    hashes: StoredHashes  # the hash annotations read from these bytes


class RuntimeView(Protocol):
    """Inspects a runtime, and a restart of it ahead of time, without changing anything. Every call is bounded in time.

    All methods may raise Transient if the runtime does not answer.
    """

    @property
    def kind(self) -> RuntimeKind:
        """The properties that this runtime has on every node; needs no connection."""

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Return what the program on disk would make of its configuration at the next start.

        Args:
            unit: how systemd would start it.
            running: the process that serves now, if known.
        """

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Return what a restart would cost, from what is known of this runtime's versions; needs no connection."""

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        """Return how a run's restart can be made gentler without changing anything else.

        If it cannot, the run goes on without that, and the result says why.
        """

    def info(self) -> RuntimeInfo:
        """Return what the running runtime says about itself: name, versions, cgroup driver, places in use."""

    def inventory(self, *, full: bool, addresses: bool = False) -> Inventory:
        """List every container and sandbox of Kubernetes.

        Args:
            full: include start times, exit codes and sandbox addresses, which cost a call per item.
            addresses: of these, include at least the sandbox addresses.
        """

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Read the stored (not the served) metadata. Containers unknown to the runtime are left out.

        Raises:
            StepFailed: the metadata of a container has an unknown form and cannot be rewritten.
        """

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        """Return which of these containers use the runtime's sockets themselves.

        Args:
            running: the process that serves now, if known.
        """

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        """Return those of the processes that still run, according to the kernel; does not ask the runtime."""


class ContainerRuntime(RuntimeView, Protocol):
    """Rewrites stored hashes, too.

    Each implementation decides how to write hashes: while the runtime runs or, where the runtime would overwrite them,
    while it is stopped. If it is stopped for that, the next method that needs an answer starts it. Callers rely on one
    thing only: after a restart of the unit, the runtime serves what was written.
    See docs/decisions/runtimes.md.
    """

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the stored hashes of each image by the new ones paired with it, and change nothing else.

        Not atomic: if interrupted, any part of the hashes may have changed. Idempotent: metadata that is already as
        wanted is left alone. A new hash of ``None`` leaves that annotation as it is; an annotation that is missing from
        the metadata is never added.

        Raises:
            MetadataConflict: stored bytes are neither the before-image nor its rewritten form.
            ContainerGone: one of the containers is unknown to the runtime.
        """

    def restore(self, image: BeforeImage) -> None:
        """Restore the bytes of ``image``. Idempotent.

        Raises:
            MetadataConflict: the stored document differs from the image in more than its hashes.
            ContainerGone: the container is unknown to the runtime.
        """

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        """Make the runtime show again, as in these images, the containers that it wrongly takes for ended.

        May restart the runtime; see wait_until_answering(). Idempotent. Does nothing where ``kind.remembers_ends`` is
        False.

        Args:
            images: of containers that run, according to the kernel.

        Returns:
            The containers that it took for ended.
        """

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return the IDs of containers and sandboxes that this runtime was asked to stop since it started.

        Args:
            log: the lines that the runtime has logged since then, all of them.

        Returns:
            ``None`` if the log does not contain this information.
        """

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        """Return the part of the rescue script that restores each image's bytes and detects new hashes."""

    def wait_until_answering(self, timeout: float) -> None:
        """Wait until the CRI answers a list call.

        Raises:
            Transient: it does not answer within ``timeout`` seconds.
        """
