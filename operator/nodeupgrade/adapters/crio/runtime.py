"""The ContainerRuntime port (ports.runtime), implemented for CRI-O."""

import http.client
import re
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.calls import UnixConnection
from nodeupgrade.adapters.cri.client import Listing, Statuses, is_running, running
from nodeupgrade.adapters.cri.runtime import CriRuntime
from nodeupgrade.adapters.crio import restart
from nodeupgrade.adapters.crio.rescue_fragment import rendered
from nodeupgrade.adapters.crio.restart import CRIO, UNIT
from nodeupgrade.adapters.crio.store import Known, SpecificationStore, to_inventory
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.node.inventory import Inventory, StoredHashes
from nodeupgrade.domain.node.rescue_script import RescueFragment
from nodeupgrade.domain.node.runtime import NextStart, RestartHazards, RuntimeAtWork, RuntimePlaces, RuntimeProcess
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.ports.runtime import BeforeImage


class CrioRuntime(CriRuntime):
    """The CRI-O of one node: the CRI and its own HTTP, both on one socket, and the files of its storage."""

    kind = CRIO
    # CRI-O logs these at level info, its default, before it acts (server/container_stop.go, sandbox_stop.go …).
    STOP_REQUEST = re.compile(
        r"(?:Stopping container|Stopping pod sandbox|Removing container|Removing pod sandbox): ([0-9a-f]+)"
    )

    program: restart.CrioProgram
    store: SpecificationStore

    def __post_init__(self) -> None:
        super().__post_init__()
        self.program = restart.CrioProgram(self.prefix)
        self.store = SpecificationStore(self.files, self.processes.lives, self._storage)
        self._configuration: restart.CrioConfiguration | None = None
        self._known = Known()

    def inventory(self, *, full: bool, addresses: bool = False) -> Inventory:
        """Make two calls, and a call for each new container and sandbox; read in ``/proc``.

        PIDs are cached unless ``full``: the CRI starts each process once. The start time in ``/proc`` detects a reused
        PID.
        """
        return self.connection.retry(lambda: self._inventory(full=full, addresses=addresses))

    def _inventory(self, *, full: bool, addresses: bool) -> Inventory:
        containers, sandboxes = self._listed()
        if full:
            self._known.pids.clear()
        unknown = running(containers, sandboxes) - self._known.pids.keys()
        of_containers = self.cri.container_statuses((c.id for c in containers if c.id in unknown), verbose=True)
        of_sandboxes = self.cri.sandbox_statuses((s.id for s in sandboxes if s.id in unknown), verbose=True)
        self._known.learn(of_containers, of_sandboxes)
        if full:
            of_ended = self.cri.container_statuses(c.id for c in containers if not is_running(c))
            self._known.date(of_ended)
            of_containers |= of_ended
        if full or addresses:
            of_sandboxes |= self.cri.sandbox_statuses(s.id for s in sandboxes if s.id not in of_sandboxes)
        statuses = Statuses(
            containers=of_containers if full else {}, sandboxes=of_sandboxes if full or addresses else {}
        )
        listing = Listing(containers=containers, sandboxes=sandboxes, pids=self._known.pids)
        return to_inventory(listing, statuses, self._known, self.processes)

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:
        """Put back what CRI-O wrote down about containers and pods that it has come to take for ended.

        It is stopped for that.
        """
        every = tuple(images)
        self.store.tidy_states(every)
        taken = self.store.taken_for_ended(every)
        if taken:
            self.services.stop(UNIT)
            for image in taken:
                self.store.reinstate(image)
            self.services.start(UNIT)
        return frozenset(image.container_id for image in taken)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return restart.find_next_start(
            self.files,
            self.program,
            unit,
            running,
            runs=self._asked(),
            environment=(None if running is None else self.processes.environment(running.pid)) or {},
        )

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        silent = self.connection.retry(lambda: silent_clients(self.socket))
        return restart.find_hazards(self.files, self._asked(), seen, silent=silent)

    def rescue_fragment(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
        return rendered(str(self.socket), self.cri.listing_of_running(), changes)

    def wait_until_answering(self, timeout: float) -> None:
        """Start CRI-O if it was stopped."""
        if self._is_down():
            self.services.start(UNIT)
        super().wait_until_answering(timeout)

    def _asked(self) -> restart.CrioConfiguration:
        self._configuration = self.connection.retry(lambda: ask(self.socket))
        return self._configuration

    def _storage(self) -> PurePosixPath:
        return PurePosixPath(restart.places(self._configuration or self._asked()).root)

    def _places(self) -> RuntimePlaces:
        return restart.places(self._asked())


# What the running CRI-O says about itself over HTTP, on the same socket as the CRI.

TIMEOUT_SECONDS = 5.0
CONFIG, GOROUTINES = "/config", "/debug/goroutines"
SILENT = re.compile(r"^goroutine (\d+) \[.*(?:\n.+)*?\n\S+/cmux\.\(\*cMux\)\.serve\(", re.MULTILINE)
"""The goroutine of a client of whom it is not known yet whether it speaks HTTP/1 or gRPC: it has made no call."""
TO_CALL_SECONDS = 0.5
"""A client that connects in order to make a call has made it by then."""


def ask(path: Path) -> restart.CrioConfiguration:
    """Ask the CRI-O that listens on a socket how it is configured.

    Raises:
        Transient: it does not answer.
        StepFailed: its answer makes no sense.
    """
    text = _get(path, CONFIG)
    try:
        found = restart.configured(tomllib.loads(text.decode()))
    except (ValueError, KeyError, TypeError) as error:
        raise StepFailed(
            f"cannot read what CRI-O says about itself on {path}: {type(error).__name__} {error}"
        ) from error
    if not found.root.startswith("/") or not found.driver or "/" in found.driver:
        raise StepFailed(f"cannot tell where CRI-O keeps its containers: it names {found.root!r} and {found.driver!r}")
    return found


def silent_clients(path: Path, *, patience: float = TO_CALL_SECONDS) -> int:
    """Return how many clients are connected to the CRI-O that listens on a socket without having made a call.

    A CRI-O that stops waits for each of them: it tells HTTP/1 and gRPC apart by what a client says first (cmux), and
    has no time limit for that. Told by its goroutines. A CRI-O that does not show them is taken to have no such client.

    Args:
        patience: seconds that a client has to make a call.

    Raises:
        Transient: it does not answer.
    """
    if not (before := _silent(path)):
        return 0
    time.sleep(patience)
    return len(before & _silent(path))


def _silent(path: Path) -> frozenset[str]:
    try:
        return frozenset(SILENT.findall(_get(path, GOROUTINES).decode(errors="replace")))
    except StepFailed:
        return frozenset()


def _get(path: Path, what: str) -> bytes:
    connection = UnixConnection(path, TIMEOUT_SECONDS)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"GET {what} on {path} failed: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise StepFailed(f"GET {what} on {path} was answered with {answer.status} {answer.reason}")
    return body
