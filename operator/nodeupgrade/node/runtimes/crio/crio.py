"""Implements ContainerRuntime with CRI-O."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.cri.base import CriRuntime
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, is_ready, is_running, running, within
from nodeupgrade.node.runtimes.crio.configuration import CrioConfiguration
from nodeupgrade.node.runtimes.crio.daemon import fetch_configuration, silent_clients
from nodeupgrade.node.runtimes.crio.ended_records import EndedRecords
from nodeupgrade.node.runtimes.crio.hash_store import SpecificationStore
from nodeupgrade.node.runtimes.crio.listing import StatusCache, to_inventory
from nodeupgrade.node.runtimes.crio.next_start import CRIO, UNIT, CrioProgram, find_next_start, places
from nodeupgrade.node.runtimes.crio.restart_hazards import find_hazards
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RuntimeAtWork,
    RuntimePlaces,
    RuntimeProcess,
)
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.runtimes.runtime import BeforeImage


class CrioRuntime(CriRuntime):
    """The CRI-O of one node: the CRI and its own HTTP, both on one socket, and the files of its storage."""

    kind = CRIO
    # CRI-O logs these at level info, its default, before it acts (server/container_stop.go, sandbox_stop.go …); 1.17.5
    # says "Attempting to". No "Removing container": kubelets remove what has ended, and CRI-O lists it meanwhile.
    STOP_REQUEST = re.compile(
        r"(?:(?:Stopping|Attempting to stop) (?:container|pod sandbox)|(?:Removing|Attempting to remove) pod sandbox): "
        r"([0-9a-f]+)"
    )

    STOPPED = re.compile(r"level=info .*[Ss]topped (?:container|pod sandbox)")

    program: CrioProgram
    store: SpecificationStore

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return ``None`` as well for one up to 1.17.4, and 1.18.0, which log only what they have stopped."""
        lines = tuple(log)
        asked = super().asked_to_stop(lines)
        return None if not asked and any(map(self.STOPPED.search, lines)) else asked

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = CrioProgram(self.prefix)
        self.store = SpecificationStore(self.files, self._storage)
        self._configuration: CrioConfiguration | None = None
        self._known = StatusCache()

    def inventory(self, *, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        """Make two calls, and a call for each new container and sandbox; read in ``/proc``.

        PIDs are cached unless ``full``: the CRI starts a process once. The start time in ``/proc`` shows a reused PID.
        """
        return self.connection.retry(lambda: self._inventory(full=full, of=of, addresses=addresses))

    def _inventory(self, *, full: bool, of: Collection[PodUid], addresses: bool) -> Inventory:
        containers, sandboxes = self._listed()
        if full:
            self._known.pids.clear()
        of_pods, pods = within(of, containers, sandboxes)
        requested = frozenset(c.id for c in containers if full or c.id in of_pods)
        unknown = running(containers, sandboxes) - (self._known.pids.keys() - of_pods - pods)
        of_containers = self.cri.container_statuses((c.id for c in containers if c.id in unknown), verbose=True)
        of_sandboxes = self.cri.sandbox_statuses((s.id for s in sandboxes if s.id in unknown), verbose=True)
        self._known.learn(of_containers, of_sandboxes)
        of_ended = self.cri.container_statuses(c.id for c in containers if c.id in requested and not is_running(c))
        self._known.date(of_ended)
        of_containers |= of_ended
        addressed = {s.id for s in sandboxes if full or (addresses and is_ready(s)) or s.id in pods}
        of_sandboxes |= self.cri.sandbox_statuses(addressed - of_sandboxes.keys())
        statuses = Statuses(
            containers={i: status for i, status in of_containers.items() if i in requested},
            sandboxes={i: status for i, status in of_sandboxes.items() if i in addressed},
            requested=requested,
        )
        listing = Listing(containers=containers, sandboxes=sandboxes, pids=self._known.pids)
        return to_inventory(listing, statuses, self._known, self.processes)

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        return EndedRecords(self.store, self.processes.lives).reinstate(images, self.services)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return find_next_start(
            self.files,
            self.program,
            unit,
            running,
            runs=self._asked(),
            environment=(None if running is None else self.processes.environment(running.pid)) or {},
        )

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        silent = self.connection.retry(lambda: silent_clients(self.socket))
        return find_hazards(self.files, self._asked(), seen, silent=silent)

    def wait_until_answering(self, timeout: float) -> None:
        """Start CRI-O if it was stopped."""
        if self._is_down():
            self.services.start(UNIT)
        super().wait_until_answering(timeout)

    def _asked(self) -> CrioConfiguration:
        self._configuration = self.connection.retry(lambda: fetch_configuration(self.socket))
        return self._configuration

    def _storage(self) -> PurePosixPath:
        return PurePosixPath(places(self._configuration or self._asked()).root)

    def _places(self) -> RuntimePlaces:
        return places(self._asked())
