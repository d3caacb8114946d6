"""Registers the supported container runtimes, one line each; see docs/adding-a-runtime.md."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import supported_runtimes
from nodeupgrade.errors import Refused
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.cri.base import NodeRuntime
from nodeupgrade.node.runtimes.crio.crio import CrioRuntime
from nodeupgrade.node.runtimes.docker.docker import DockerRuntime

RUNTIMES: tuple[type[NodeRuntime], ...] = (
    ContainerdRuntime,
    DockerRuntime,
    CrioRuntime,
)  # fmt: skip


def runtime_named(name: str) -> type[NodeRuntime]:
    """Return the adapter of a runtime by the name that the CRI and the Node's status report.

    Raises:
        Refused: the runtime is not supported.
    """
    for adapter in RUNTIMES:
        if adapter.kind.name == name:
            return adapter
    raise Refused(Reason.UNSUPPORTED_RUNTIME, f"the runtime is {name or 'unknown'}; only {supported_runtimes()}")
