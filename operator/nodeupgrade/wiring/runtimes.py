"""Registers the supported container runtimes, one line each: see docs/adding-a-runtime.md."""

from pathlib import Path
from typing import Protocol

from nodeupgrade.adapters.containerd import ContainerdRuntime
from nodeupgrade.adapters.crio import CrioRuntime
from nodeupgrade.adapters.docker import DockerRuntime
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import supported_runtimes
from nodeupgrade.domain.errors import Refused
from nodeupgrade.domain.node.runtime import RuntimeKind
from nodeupgrade.ports.node.runtime import ContainerRuntime
from nodeupgrade.ports.node.services import ServiceManager


class RuntimeAdapter(Protocol):
    """Builds the port to the runtime of one node, without connecting to it."""

    @property
    def kind(self) -> RuntimeKind:
        """The properties that this runtime has on every node."""
        ...

    def __call__(
        self,
        socket: Path,
        *,
        processes: ProcessTable,
        files: HostFiles,
        services: ServiceManager,
        prefix: tuple[str, ...],
    ) -> ContainerRuntime:
        """Build the port.

        Args:
            socket: the kubelet's CRI endpoint, as this process sees it.
            processes: the node's processes.
            files: the node's files.
            services: the node's units.
            prefix: the command prefix for the node's programs, for example ``("chroot", "/host")`` in a pod.
        """
        ...


RUNTIMES: tuple[RuntimeAdapter, ...] = (
    ContainerdRuntime,
    DockerRuntime,
    CrioRuntime,
)  # fmt: skip


def runtime_named(name: str) -> RuntimeAdapter:
    """Return the adapter of a runtime by the name that the CRI and the Node's status report.

    Raises:
        Refused: the runtime is not supported.
    """
    for adapter in RUNTIMES:
        if adapter.kind.name == name:
            return adapter
    raise Refused(Reason.UNSUPPORTED_RUNTIME, f"the runtime is {name or 'unknown'}; only {supported_runtimes()}")
