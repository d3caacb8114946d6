"""The ContainerRuntime port (ports.runtime), implemented for containerd 1.4 to 2.3."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from nodeupgrade.adapters.containerd import restart
from nodeupgrade.adapters.containerd.client import NAMESPACE, ContainerdClient
from nodeupgrade.adapters.containerd.daemon import CONTAINERD, UNIT, ContainerdProgram, places
from nodeupgrade.adapters.containerd.rescue_fragment import remedy, rendered
from nodeupgrade.adapters.containerd.store import HashStore, to_inventory
from nodeupgrade.adapters.cri.client import Listing, Statuses, running
from nodeupgrade.adapters.cri.runtime import CriRuntime
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.proc import ProcessTable, clients, listener
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.inventory import Inventory, StoredHashes
from nodeupgrade.domain.node.rescue_script import RescueFragment
from nodeupgrade.domain.node.runtime import (
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeAtWork,
    RuntimeClients,
    RuntimeProcess,
)
from nodeupgrade.domain.node.units import UnitStatus
from nodeupgrade.ports.files import FilesView
from nodeupgrade.ports.runtime import BeforeImage, RuntimeInfo
from nodeupgrade.ports.services import ServicesView

SOCKET = Path("/run/containerd/containerd.sock")


class ContainerdRuntime(CriRuntime):
    """The containerd of one node, reached through its own API and the CRI, both on one socket.

    Args, besides those of CriRuntime:
        files: the node's files.
        services: the node's units; without them, the version of the program on disk is unknown.
        prefix: command prefix for containerd's program, for example ``("chroot", "/host")`` in a pod.
    """

    kind = CONTAINERD
    # containerd 1.4 to 2.3 log these at level info before they act (pkg/cri … instrumented_service.go). Both log
    # formats, text and JSON, quote the message once more.
    STOP_REQUEST = re.compile(r'(?:StopContainer|StopPodSandbox|RemovePodSandbox) for \\?"([0-9a-f]+)\\?"')

    def __init__(
        self,
        socket: Path = SOCKET,
        *,
        processes: ProcessTable,
        files: FilesView | None = None,
        services: ServicesView | None = None,
        prefix: tuple[str, ...] = (),
        timeout: float = 10.0,
        patience: float = 2.0,
    ) -> None:
        super().__init__(socket, processes=processes, metadata=NAMESPACE, timeout=timeout, patience=patience)
        self._containerd = ContainerdClient(self._connection)
        self._store = HashStore(self._containerd)
        self._files = files or HostFiles()
        self._services = services
        self._program = ContainerdProgram(prefix)
        self._pids: Mapping[str, int] = {}

    def info(self) -> RuntimeInfo:
        process = listener(self._socket, self._processes)
        return RuntimeInfo(
            name=self._connection.retry(self._cri.version).runtime_name,
            version=self._containerd.version(),
            cri_versions=tuple(version.value for version in self._cri.served()),
            binary_version=self._version_on_disk(process),
            cgroup_driver=self._cri.cgroup_driver(),
            process=process,
            places=places(self._cri.status_info()),
            images=self._cri.image_filesystem(),
        )

    def inventory(self, *, full: bool, addresses: bool = False) -> Inventory:
        """Make up to three calls, and read in ``/proc``.

        Unless sandbox statuses are requested (``full`` or ``addresses``), ``host_network`` is derived from the network
        namespace of the sandbox's process, and is False for sandboxes that ended.

        PIDs are cached unless ``full``: the CRI starts each process once, and listing tasks makes containerd ask every
        shim, a third of a millisecond each. The start time in ``/proc`` detects a reused PID.
        """
        listing = self._connection.retry(lambda: self._list(refresh_pids=full))
        statuses = Statuses(
            containers=self._cri.container_statuses(c.id for c in listing.containers) if full else {},
            sandboxes=self._cri.sandbox_statuses(s.id for s in listing.sandboxes) if full or addresses else {},
        )
        return to_inventory(listing, statuses, self._processes)

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        return self._store.before_images(ids)

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        self._store.rewrite(changes)

    def restore(self, image: BeforeImage) -> None:
        self._store.restore(image)

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:  # noqa: ARG002 - it asks the shims
        """Do nothing: containerd keeps no opinion about its containers, and asks their shims when it starts."""
        return frozenset()

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        """Return who uses a socket that containerd listens on: its own, those of ttrpc and debugging, NRI's."""
        return clients(running, inventory, self._processes, self._files)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return restart.find_next_start(self._files, self._program, unit, running)

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        return restart.find_hazards(self._files, seen)

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:
        return restart.find_tuning(self._files, self._program, unit)

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        return rendered(remedy(str(self._socket), self._cri.listing_of_running(), changes))

    def _version_on_disk(self, running: RuntimeProcess | None) -> str | None:
        """Return the version of the program that a restart would start; of a unit of another name it is unknown."""
        unit = None if self._services is None else self._services.status(UNIT)
        if unit is None or not unit.program or (running is not None and unit.main_pid != running.pid):
            return None
        return self._program.version(unit.program)

    def _list(self, *, refresh_pids: bool) -> Listing:
        get_containers, get_sandboxes = self._cri.start_containers(), self._cri.start_sandboxes()
        containers, sandboxes = tuple(get_containers().containers), tuple(get_sandboxes().items)
        if refresh_pids or not running(containers, sandboxes) <= self._pids.keys():
            tasks = self._containerd.start_tasks()().tasks
            self._pids = {task.id or task.container_id: task.pid for task in tasks}
        return Listing(containers=containers, sandboxes=sandboxes, pids=self._pids)
