"""The container runtime of one node."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.host import RuntimeInfo
from nodeupgrade.domain.node.inventory import Inventory, Process, StoredHashes
from nodeupgrade.domain.node.run.rescue_script import RescueFragment
from nodeupgrade.ports.runtime_restart import RestartView

__all__ = ["BeforeImage", "ContainerRuntime", "RuntimeInfo", "RuntimeView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeImage:
    """Stored metadata of one container, byte for byte, so that it can be put back exactly.

    Attributes:
        encoding: how the runtime tags the bytes; empty where it does not.
        data: the bytes.
        hashes: the hash annotations read from these bytes.
    """

    container_id: ContainerId
    encoding: str
    data: bytes
    hashes: StoredHashes


class RuntimeView(RestartView, Protocol):
    """What can be known of a runtime without changing anything. Implementations bound every call in time.

    All methods may raise Transient when the runtime does not answer.
    """

    def info(self) -> RuntimeInfo:
        """Ask the running runtime who it is."""
        ...

    def inventory(self, *, full: bool, addresses: bool = False) -> Inventory:
        """List every container and sandbox of Kubernetes.

        Args:
            full: also ask for what costs a call per item: start times, exit codes and sandbox addresses.
            addresses: of these, ask for sandbox addresses at least.
        """
        ...

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Read the stored (not the served) metadata. Containers the runtime does not hold are left out."""
        ...

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        """Which of these processes still run, by the word of the kernel; the runtime is not asked."""
        ...


class ContainerRuntime(RuntimeView, Protocol):
    """Reads what runs, and rewrites stored hashes. Implementations bound every call in time.

    How hashes are written is the runtime's own affair: while it runs, or, where it would overwrite them, while it is
    stopped. What is stopped for that is started by the next method that needs an answer, so that whoever calls sees one
    thing only: what was written is served after a restart of the unit. See docs/decisions/what-a-runtime-offers.md.

    All methods may raise Transient when the runtime does not answer.
    """

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Change stored hashes from those of each image to the ones beside it, and nothing else.

        Cut off, it may have changed any part of them. Repeating it is harmless: metadata already as wanted is left
        alone. A hash that is ``None`` in the new hashes leaves that annotation as it is; an annotation absent from the
        metadata is never added.

        Raises:
            MetadataConflict: stored bytes are neither the before-image nor its rewritten form.
            ContainerGone: the runtime does not hold one of the containers.
        """
        ...

    def restore(self, image: BeforeImage) -> None:
        """Put the bytes of ``image`` back. Repeating it is harmless.

        Raises:
            MetadataConflict: the stored document differs from the image in more than its hashes.
            ContainerGone: the runtime does not hold the container.
        """
        ...

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Ids of containers and sandboxes that somebody asked this runtime to stop since it was started.

        Args:
            log: everything that the runtime has written since, one line each.

        Returns:
            ``None`` if its log does not tell.
        """
        ...

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        """Say how the bytes of each image are put back, and new hashes noticed, without this program."""
        ...

    def wait_until_answering(self, timeout: float) -> None:
        """Return once the CRI answers a listing; raise Transient after ``timeout`` seconds."""
        ...
