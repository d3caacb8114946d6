"""Every kind of container runtime that a node may have. Another one is one more line here: docs/adding-a-runtime.md."""

from pathlib import Path
from typing import Protocol

from nodeupgrade.adapters.containerd import ContainerdRuntime
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import supported_runtimes
from nodeupgrade.domain.errors import Refused
from nodeupgrade.domain.node.runtime import RuntimeKind
from nodeupgrade.ports.files import FilesView
from nodeupgrade.ports.runtime import ContainerRuntime
from nodeupgrade.ports.services import ServiceManager


class RuntimeAdapter(Protocol):
    """Makes the port to the runtime of one node; nothing is connected by that."""

    @property
    def kind(self) -> RuntimeKind:
        """What is the same for this runtime on every node."""
        ...

    def __call__(
        self,
        socket: Path,
        *,
        processes: ProcessTable,
        files: FilesView,
        services: ServiceManager,
        prefix: tuple[str, ...],
    ) -> ContainerRuntime:
        """Build it.

        Args:
            socket: the kubelet's CRI endpoint, as seen from here.
            processes: the node's processes.
            files: the node's files.
            services: the node's units.
            prefix: what to put before programs of the node, for example ``("chroot", "/host")`` in a pod.
        """
        ...


RUNTIMES: tuple[RuntimeAdapter, ...] = (
    ContainerdRuntime,
)  # fmt: skip


def runtime_named(name: str) -> RuntimeAdapter:
    """The adapter of a runtime, by the name that the CRI and the Node's status give it.

    Raises:
        Refused: there is none.
    """
    for adapter in RUNTIMES:
        if adapter.kind.name == name:
            return adapter
    raise Refused(Reason.UNSUPPORTED_RUNTIME, f"the runtime is {name or 'unknown'}; only {supported_runtimes()}")
