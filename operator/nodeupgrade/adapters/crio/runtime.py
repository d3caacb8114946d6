"""The ContainerRuntime port (ports.runtime), implemented for CRI-O."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from nodeupgrade.adapters.cri import Connection, CriClient
from nodeupgrade.adapters.cri.client import Listing, Statuses, is_running
from nodeupgrade.adapters.crio import restart
from nodeupgrade.adapters.crio.daemon import CRIO, UNIT, CrioDaemon, ask
from nodeupgrade.adapters.crio.log import asked_to_stop
from nodeupgrade.adapters.crio.program import CrioProgram
from nodeupgrade.adapters.crio.rescue_fragment import rendered
from nodeupgrade.adapters.crio.store import Known, SpecificationStore, to_inventory, unknown
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.proc import ProcessTable, clients, listener
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.inventory import Inventory, Process, StoredHashes
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
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage, RuntimeInfo
from nodeupgrade.ports.services import ServiceManager

SOCKET = Path("/var/run/crio/crio.sock")


class CrioRuntime:
    """The CRI-O of one node: the CRI and its own HTTP, both on one socket, and the files of its storage.

    Args:
        socket: CRI-O's socket.
        processes: the node's processes.
        files: the node's files.
        services: the node's units; without them, it cannot be stopped to put a state back.
        prefix: command prefix for CRI-O's program, for example ``("chroot", "/host")`` in a pod.
        timeout: seconds for one call.
        patience: seconds for which a read is retried while CRI-O is unavailable.
    """

    kind = CRIO

    def __init__(
        self,
        socket: Path = SOCKET,
        *,
        processes: ProcessTable,
        files: Files | None = None,
        services: ServiceManager | None = None,
        prefix: tuple[str, ...] = (),
        timeout: float = 10.0,
        patience: float = 2.0,
    ) -> None:
        self._socket = socket
        self._connection = Connection(socket, timeout=timeout, patience=patience)
        self._cri = CriClient(self._connection)
        self._processes = processes
        self._files: Files = files or HostFiles()
        self._services = services
        self._program = CrioProgram(prefix)
        self._store = SpecificationStore(self._files, processes.lives)
        self._daemon: CrioDaemon | None = None
        self._known = Known()

    def info(self) -> RuntimeInfo:
        """Return name, versions and locations of the running CRI-O, and the version of the program on disk."""
        answer = self._connection.retry(self._cri.version)
        return RuntimeInfo(
            name=answer.runtime_name,
            version=answer.runtime_version.removeprefix("v"),
            cri_versions=tuple(version.value for version in self._cri.served()),
            binary_version=self._version_on_disk(),
            cgroup_driver=self._cri.cgroup_driver(),
            process=listener(self._socket, self._processes),
            places=restart.places(self._asked().configuration),
            images=self._cri.image_filesystem(),
        )

    def inventory(self, *, full: bool, addresses: bool = False) -> Inventory:
        """List every container and sandbox of Kubernetes: two calls, a call for each new one, reads in ``/proc``.

        PIDs are cached unless ``full``: the CRI starts each process once. The start time in ``/proc`` detects a reused
        PID.
        """
        return self._connection.retry(lambda: self._inventory(full=full, addresses=addresses))

    def _inventory(self, *, full: bool, addresses: bool) -> Inventory:
        get_containers, get_sandboxes = self._cri.start_containers(), self._cri.start_sandboxes()
        containers, sandboxes = tuple(get_containers().containers), tuple(get_sandboxes().items)
        if full:
            self._known.pids.clear()
        new_containers, new_sandboxes = unknown(containers, sandboxes, self._known.pids)
        of_containers = self._cri.container_statuses(new_containers, verbose=True)
        of_sandboxes = self._cri.sandbox_statuses(new_sandboxes, verbose=True)
        self._known.learn(of_containers, of_sandboxes)
        if full:
            of_ended = self._cri.container_statuses(c.id for c in containers if not is_running(c))
            self._known.date(of_ended)
            of_containers |= of_ended
        if full or addresses:
            of_sandboxes |= self._cri.sandbox_statuses(s.id for s in sandboxes if s.id not in of_sandboxes)
        statuses = Statuses(
            containers=of_containers if full else {}, sandboxes=of_sandboxes if full or addresses else {}
        )
        listing = Listing(containers=containers, sandboxes=sandboxes, pids=self._known.pids)
        return to_inventory(listing, statuses, self._known, self._processes)

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Read the stored files; until CRI-O restarts, the CRI may serve what they held before.

        Raises:
            OddMetadata: the files of a container have an unknown form and cannot be rewritten.
        """
        return self._store.before_images((self._daemon or self._asked()).storage, ids)

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the stored hashes. The CRI serves the new ones after CRI-O's next start."""
        self._store.rewrite(changes)

    def restore(self, image: BeforeImage) -> None:
        """Store the specification of the before-image again. The CRI serves it after CRI-O's next start."""
        self._store.restore(image)

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        """Put back what CRI-O wrote down about containers and pods that it has come to take for ended.

        It is stopped for that.
        """
        every = tuple(images)
        self._store.tidy_states(every)
        taken = self._store.taken_for_ended(every)
        if taken and self._services is not None:
            self._services.stop(UNIT)
            for image in taken:
                self._store.reinstate(image)
            self._services.start(UNIT)
        return frozenset(image.container_id for image in taken)

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        """Return who uses a socket that CRI-O listens on."""
        return clients(running, inventory, self._processes, self._files)

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        """Return those processes that still run, according to the kernel."""
        return frozenset(process for process in processes if self._processes.lives(process))

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        """Ask the program on disk how it would start with its present configuration."""
        return restart.find_next_start(
            self._files,
            self._program,
            unit,
            running,
            runs=self._asked().configuration,
            environment=(None if running is None else self._processes.environment(running.pid)) or {},
        )

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        """Return the known hazards of restarting this CRI-O."""
        return restart.find_hazards(self._files, self._asked().configuration, seen)

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:  # noqa: ARG002 - conmons need no time
        """Change nothing: conmons go on without CRI-O, and it waits for none of them."""
        return RestartTuning()

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return the ids that CRI-O was asked to stop, from its log; ``None`` if the log is inconclusive."""
        return asked_to_stop(log)

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        """Return what restore() and reinstate() do, as shell functions."""
        return rendered(str(self._socket), self._cri.listing_of_running(), changes)

    def wait_until_answering(self, timeout: float) -> None:
        """Wait until the CRI can list containers; start it if it was stopped."""
        if self._services is not None and self._services.status(UNIT).active_state in {"inactive", "failed"}:
            self._services.start(UNIT)
        self._cri.wait_until_listing(timeout)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self._connection.close()

    def _asked(self) -> CrioDaemon:
        self._daemon = self._connection.retry(lambda: ask(self._socket))
        return self._daemon

    def _version_on_disk(self) -> str | None:
        """Return the version of the program that a restart would start."""
        program = "" if self._services is None else self._services.status(UNIT).program
        return self._program.version(program) if program else None
