"""The base classes of ContainerRuntime's implementations."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import Transient, Unimplemented
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.host.retries import retry_for
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.client import CriClient
from nodeupgrade.node.runtimes.cri.connection import Connection
from nodeupgrade.node.runtimes.cri.hash_store import HashStore
from nodeupgrade.node.runtimes.description import RestartTuning, RuntimeInfo, RuntimeKind, RuntimePlaces, RuntimeProcess
from nodeupgrade.node.runtimes.inventory import Inventory, StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage, ContainerRuntime, RuntimeClients
from nodeupgrade.node.runtimes.socket_clients import find_clients
from nodeupgrade.node.runtimes.socket_listener import find_listener
from nodeupgrade.text import parse_json

POLL_INTERVAL = 0.005
POLL_DEADLINE = 1.0
LINE = re.compile(r'time="[^"]*" level=(\w+) msg="?((?:[^"\\]|\\.)*)', re.ASCII)
"""The beginning of a line in logrus' text. What follows may quote what pods wrote."""
SUPPRESSED = re.compile(r"^Suppressed \d+ messages", re.ASCII)


@dataclass(eq=False)
class NodeRuntime(ContainerRuntime):
    """A runtime of one node, reached through its socket."""

    kind: ClassVar[RuntimeKind]
    SYSTEMDS_SOCKET_STAYS: ClassVar = True
    """Whether a socket that systemd opens for the runtime outlives its restart."""

    socket: Path  # as this process sees it
    _: KW_ONLY
    processes: ProcessTable
    files: HostFiles
    services: ServiceManager
    prefix: tuple[str, ...] = ()  # of commands that run the runtime's program, such as ``("chroot", "/host")`` in a pod
    timeout: float = 10.0  # seconds for one call
    patience: float = 2.0  # seconds for which a read is repeated while the runtime is unavailable
    program: NodeProgram = field(init=False)
    store: HashStore[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Build clients, program and store."""

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        return self.store.before_images(ids)

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        self.store.rewrite(changes)

    def restore(self, image: BeforeImage) -> None:
        self.store.restore(image)

    def reinstate(self, images: Iterable[BeforeImage]) -> frozenset[ContainerId]:  # noqa: ARG002 - see below
        """Do nothing: a starting runtime checks every container."""
        return frozenset()

    def alive(self, processes: Iterable[Process]) -> frozenset[Process]:
        return frozenset(process for process in processes if self.processes.lives(process))

    def clients(self, inventory: Inventory, running: RuntimeProcess | None) -> RuntimeClients:
        with_systemds = not self.SYSTEMDS_SOCKET_STAYS
        return find_clients(running, inventory, self.processes, self.files, with_systemds=with_systemds)

    def restart_tuning(self, unit: UnitStatus) -> RestartTuning:  # noqa: ARG002 - the same for every unit
        """Change nothing: a starting runtime does not limit how long monitors may take to answer."""
        return RestartTuning()

    def _version_on_disk(self, unit: UnitStatus) -> str | None:
        return self.program.version(unit.program) if unit.program else None

    def _is_down(self) -> bool:
        return self.services.status(self.kind.unit).down


class CriRuntime(NodeRuntime):
    """A runtime that serves the CRI."""

    METADATA: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Metadata of every call."""
    STOP_REQUEST: ClassVar[re.Pattern[str]]
    """Matches a message at level info about a request to stop or remove something; its group is the id."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.connection = Connection(self.socket, metadata=self.METADATA, timeout=self.timeout, patience=self.patience)
        self.cri = CriClient(self.connection)

    def info(self) -> RuntimeInfo:
        answer = self.connection.retry(self.cri.version)
        process, unit = find_listener(self.socket, self.processes), self.services.status(self.kind.unit)
        # Another process than the unit's was started by a unit of another name, whose program is unknown.
        of_unit = process is None or unit.main_pid == process.pid
        return RuntimeInfo(
            name=answer.runtime_name,
            version=answer.runtime_version.removeprefix("v"),
            cri_versions=tuple(version.value for version in self.cri.served()),
            binary_version=self._version_on_disk(unit) if of_unit else None,
            cgroup_driver=self.cri.cgroup_driver(),
            process=process,
            places=self._places(),
            images=self.cri.image_filesystem(),
        )

    def _places(self) -> RuntimePlaces | None:
        raise NotImplementedError

    def _listed(self) -> tuple[tuple[pb.Container, ...], tuple[pb.PodSandbox, ...]]:
        """List all containers and sandboxes, in two simultaneous calls."""
        get_containers, get_sandboxes = self.cri.start_containers(), self.cri.start_sandboxes()
        return tuple(get_containers().containers), tuple(get_sandboxes().items)

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:
        """Return ``None`` if the log is inconclusive: it has no line at level info, or lines were dropped."""
        stopped: set[str] = set()
        logs_info = False
        for line in log:
            if SUPPRESSED.search(line):
                return None
            level, message = _parsed(line)
            logs_info = logs_info or level == "info"
            if (found := self.STOP_REQUEST.match(message)) is not None:
                stopped.add(found.group(1))
        return frozenset(stopped) if logs_info else None

    def wait_until_answering(self, timeout: float) -> None:
        """Wait until a restarted runtime lists containers; an active unit does not mean that it does."""
        self.cri.forget_served()
        passing = (Transient, Unimplemented)

        def list_once() -> None:
            self.cri.start_containers(timeout=POLL_DEADLINE)()

        try:
            retry_for(list_once, timeout, pause=POLL_INTERVAL, errors=passing)
        except passing as error:
            raise Transient(f"the runtime's CRI did not answer within {timeout:g} s; last: {error}") from error

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self.connection.close()


def _parsed(line: str) -> tuple[str, str]:
    """Return level and message of a line in logrus' text or JSON; empty if it is neither."""
    if (match := LINE.match(line)) is not None:
        return match[1], match[2].replace('\\"', '"')
    try:
        document = parse_json(line) if line.startswith("{") else None
    except ValueError:
        return "", ""
    match document:
        case {"level": str(level), "msg": str(message)}:
            return level, message
        case _:
            return "", ""
