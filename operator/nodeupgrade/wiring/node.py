"""One node, reached from the agent's pod or from the host itself."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.clock import NodeClock
from nodeupgrade.adapters.containerd import ContainerdRuntime, Program
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.kubelet import HostKubelet
from nodeupgrade.adapters.kubelet.identity import KubeletIdentity
from nodeupgrade.adapters.observability import log_to_stderr
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.adapters.systemd import SystemdManager
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.facts.gather import RUNTIME_UNIT
from nodeupgrade.engine.node.node import Node
from nodeupgrade.kubelet.kubeconfig import carried, parse

__all__ = ["host_from_pod", "log_to_stderr", "node_on_host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedHost:
    """Implements engine.node.Host for a node whose root directory is mounted at ``root``."""

    root: Path
    processes: ProcessTable
    files: HostFiles
    services: SystemdManager
    kubelet: HostKubelet
    prefix: tuple[str, ...]

    def node(self, endpoint: str) -> Node:
        """The same node with its runtime; ``endpoint`` is the path of the socket on the node."""
        socket = self.root / PurePosixPath(endpoint).relative_to("/")
        return Node(
            runtime=ContainerdRuntime(
                socket,
                processes=self.processes,
                program_version=lambda: _runtime_on_disk(self),
                program=Program(self.prefix),
            ),
            services=self.services,
            files=self.files,
            kubelet=self.kubelet,
            clock=NodeClock(self.processes),
        )

    def as_kubelet(self, kubeconfig: PurePosixPath) -> KubeletIdentity:
        """The API server, with the credentials of the kubelet's kubeconfig as they are now.

        Raises:
            StepFailed: there are none in it that can be used.
        """
        if (text := self.files.read(kubeconfig)) is None:
            raise StepFailed(f"there is no {kubeconfig}")
        try:
            return KubeletIdentity(carried(parse(text, kubeconfig.parent), self.files.read))
        except ValueError as error:
            raise StepFailed(f"cannot use the credentials in {kubeconfig}: {error}") from error


def host_from_pod(root: Path) -> MountedHost:
    """The node whose root directory is mounted at ``root``; its programs run in a chroot there."""
    processes = ProcessTable(root / "proc")
    prefix = ("chroot", str(root))
    return MountedHost(
        root=root,
        processes=processes,
        files=HostFiles(root),
        services=SystemdManager(prefix=prefix, root=root),
        kubelet=HostKubelet(processes, prefix=prefix),
        prefix=prefix,
    )


def node_on_host(plan: RunPlan) -> Node:
    """The node this process runs on, as the plan describes it."""
    processes = ProcessTable(Path("/proc"))
    return Node(
        runtime=ContainerdRuntime(Path(plan.runtime_endpoint), processes=processes),
        services=SystemdManager(),
        files=HostFiles(),
        kubelet=HostKubelet(processes, healthz=plan.healthz_url),
        clock=NodeClock(processes),
    )


def _runtime_on_disk(host: MountedHost) -> str | None:
    """Version of the runtime's program that a restart would start: third word of ``containerd --version``."""
    program = host.services.status(RUNTIME_UNIT).program
    if not program:
        return None
    status, output = host.kubelet.version_output(PurePosixPath(program))
    words = output.split()
    return words[2].removeprefix("v") if status == 0 and len(words) > 2 else None
