"""The ContainerRuntime port (ports.runtime), implemented for CRI-O."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from nodeupgrade.adapters.cri.client import Listing, Statuses, is_running
from nodeupgrade.adapters.cri.runtime import CriRuntime
from nodeupgrade.adapters.crio import restart
from nodeupgrade.adapters.crio.daemon import CRIO, UNIT, CrioDaemon, ask, silent_clients
from nodeupgrade.adapters.crio.rescue_fragment import rendered
from nodeupgrade.adapters.crio.store import Known, SpecificationStore, to_inventory, unknown
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
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage, RuntimeInfo
from nodeupgrade.ports.services import ServiceManager

SOCKET = Path("/var/run/crio/crio.sock")


class CrioRuntime(CriRuntime):
    """The CRI-O of one node: the CRI and its own HTTP, both on one socket, and the files of its storage.

    Args, besides those of CriRuntime:
        files: the node's files.
        services: the node's units; without them, it cannot be stopped to put a state back.
        prefix: command prefix for CRI-O's program, for example ``("chroot", "/host")`` in a pod.
    """

    kind = CRIO
    # CRI-O logs these at level info, its default, before it acts (server/container_stop.go, sandbox_stop.go …).
    STOP_REQUEST = re.compile(
        r"(?:Stopping container|Stopping pod sandbox|Removing container|Removing pod sandbox): ([0-9a-f]+)"
    )

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
        super().__init__(socket, processes=processes, timeout=timeout, patience=patience)
        self._files: Files = files or HostFiles()
        self._services = services
        self._program = restart.CrioProgram(prefix)
        self._store = SpecificationStore(self._files, processes.lives)
        self._daemon: CrioDaemon | None = None
        self._known = Known()

    def info(self) -> RuntimeInfo:
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
        """Make two calls, and a call for each new container and sandbox; read in ``/proc``.

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
        return self._store.before_images((self._daemon or self._asked()).storage, ids)

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        self._store.rewrite(changes)

    def restore(self, image: BeforeImage) -> None:
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
        return clients(running, inventory, self._processes, self._files)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return restart.find_next_start(
            self._files,
            self._program,
            unit,
            running,
            runs=self._asked().configuration,
            environment=(None if running is None else self._processes.environment(running.pid)) or {},
        )

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        silent = self._connection.retry(lambda: silent_clients(self._socket))
        return restart.find_hazards(self._files, self._asked().configuration, seen, silent=silent)

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:  # noqa: ARG002 - conmons need no time
        """Change nothing: conmons go on without CRI-O, and it waits for none of them."""
        return RestartTuning()

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        return rendered(str(self._socket), self._cri.listing_of_running(), changes)

    def wait_until_answering(self, timeout: float) -> None:
        """Start CRI-O if it was stopped."""
        if self._services is not None and self._services.status(UNIT).active_state in {"inactive", "failed"}:
            self._services.start(UNIT)
        super().wait_until_answering(timeout)

    def _asked(self) -> CrioDaemon:
        self._daemon = self._connection.retry(lambda: ask(self._socket))
        return self._daemon

    def _version_on_disk(self) -> str | None:
        """Return the version of the program that a restart would start."""
        program = "" if self._services is None else self._services.status(UNIT).program
        return self._program.version(program) if program else None
