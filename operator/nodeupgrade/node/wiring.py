"""Builds access to one node, from the agent's pod or on the host itself."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.kubeconfig import inlined, parse
from nodeupgrade.node.bundle.store import NodeBundles, Verified
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.package_holds import HostPackages
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.node import Node
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.running_kubelet.credential_programs import CredentialPrograms
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from nodeupgrade.node.running_kubelet.isolation import INTERPRETER
from nodeupgrade.node.running_kubelet.requests import KubeletIdentity
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.runtimes.supported import RUNTIMES, runtime_named
from nodeupgrade.node.shield.socket_exchange import HostShield


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedHost:
    """Implements Host for a node whose root directory is mounted at ``root``."""

    root: Path
    processes: ProcessTable
    files: HostFiles
    services: SystemdManager
    kubelet: HostKubelet
    clock: SystemClock
    packages: HostPackages
    credential_programs: CredentialPrograms
    runtimes: tuple[RuntimeKind, ...]
    prefix: tuple[str, ...]

    def node(self, endpoint: str, runtime: str) -> Node:
        """Implement Host."""
        return Node(
            runtime=runtime_named(runtime)(
                self.files.seen(PurePosixPath(endpoint)),
                processes=self.processes,
                files=self.files,
                services=self.services,
                prefix=self.prefix,
            ),
            services=self.services,
            files=self.files,
            kubelet=self.kubelet,
            clock=self.clock,
            shield=HostShield(self.files.seen(PurePosixPath(endpoint)), self.root / "run"),
            packages=self.packages,
        )

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> KubeletIdentity:
        """Implement HostView."""
        if (text := self.files.read(kubeconfig)) is None:
            raise StepFailed(f"there is no {kubeconfig}")
        try:
            found = inlined(parse(text, kubeconfig.parent), self.files.read)
            environment = partial(self.kubelet.environment, pid)
            source = self.credential_programs.source(kubeconfig, found, environment)
            source.current()
            return KubeletIdentity(source)
        except ValueError as error:
            raise StepFailed(f"cannot use the credentials in {kubeconfig}: {error}") from error


def host_from_pod(root: Path) -> MountedHost:
    """Return the node whose root directory is mounted at ``root``; its programs run in a chroot there."""
    processes, files = ProcessTable(root / "proc"), HostFiles(root)
    prefix = ("chroot", str(root))
    return MountedHost(
        root=root,
        processes=processes,
        files=files,
        services=SystemdManager(prefix=prefix, root=root),
        kubelet=HostKubelet(processes, prefix=prefix, root=root),
        clock=SystemClock(processes),
        packages=HostPackages(files, processes, prefix=prefix),
        credential_programs=CredentialPrograms(root, INTERPRETER),
        runtimes=tuple(adapter.kind for adapter in RUNTIMES),
        prefix=prefix,
    )


def runs_from_pod(root: Path) -> RunStore:
    """Return the runs of the node whose root directory is mounted at ``root``."""
    return RunStore(root / RUNS.relative_to("/"), mount=root)


def bundles_from_pod(source: Path, root: Path, *directories: PurePosixPath) -> tuple[NodeBundles, ...]:
    """Return the bundles in each directory on the node; ``source`` is the one that the agent brings."""
    verified = Verified()
    return tuple(
        NodeBundles(source=source, parent=root / at.relative_to("/"), on_node=at, verified=verified)
        for at in directories
    )


def node_on_host(plan: RunPlan) -> Node:
    """Return the node that this process runs on, as the plan describes it."""
    processes, files, services = ProcessTable(Path("/proc")), HostFiles(), SystemdManager()
    adapter = runtime_named(plan.runtime_name)
    return Node(
        runtime=adapter(Path(plan.runtime_endpoint), processes=processes, files=files, services=services, prefix=()),
        services=services,
        files=files,
        kubelet=HostKubelet(processes, healthz=plan.healthz_url),
        clock=SystemClock(processes),
        shield=HostShield(Path(plan.runtime_endpoint if plan.shield is None else plan.shield.socket)),
        packages=HostPackages(files, processes),
    )
