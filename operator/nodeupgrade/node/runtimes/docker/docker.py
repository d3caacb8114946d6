"""Implements ContainerRuntime with Docker."""

from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.api.values import PodUid
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.retries import retry_for
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.cri.base import NodeRuntime
from nodeupgrade.node.runtimes.cri.restart_hazards import version_numbers
from nodeupgrade.node.runtimes.description import (
    NextStart,
    RestartHazards,
    RuntimeAtWork,
    RuntimeInfo,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
)
from nodeupgrade.node.runtimes.docker.client import Document, EngineClient
from nodeupgrade.node.runtimes.docker.hash_store import LabelStore
from nodeupgrade.node.runtimes.docker.listing import (
    Details,
    is_running,
    pod_uid,
    read_details,
    shown_to_kubelets,
    to_inventory,
)
from nodeupgrade.node.runtimes.docker.next_start import UNIT, DockerdProgram, find_next_start, read_settings, real_path
from nodeupgrade.node.runtimes.docker.process import find_daemon, stop_daemon, units
from nodeupgrade.node.runtimes.docker.restart_hazards import find_hazards, objections
from nodeupgrade.node.runtimes.inventory import Inventory

DATABASES = (
    *map(PurePosixPath, ("volumes/metadata.db", "network/files/local-kv.db", "builder/fscache.db")),
    *(
        PurePosixPath("buildkit", f"{name}.db")
        for name in ("cache", "containerdmeta", "history", "metadata_v2", "snapshots")
    ),
)

DOCKER = RuntimeKind(
    name=SupportedRuntime.DOCKER,
    unit=UNIT,
    why_no_shield="its kubelet talks to Docker in Docker's own protocol, which the shield does not understand",
    stops_for_rewriting=True,
    locks=DATABASES,
)
POLL_INTERVAL = 0.01
POLL_DEADLINE = 1.0


class DockerRuntime(NodeRuntime):
    """The Docker of one node, reached through its own socket.

    A kubelet with dockershim serves the CRI itself, so there is none while it is down. dockershim's answers are derived
    from dockerd's labels and names.
    """

    kind = DOCKER
    SYSTEMDS_SOCKET_STAYS = False

    program: DockerdProgram

    def __post_init__(self) -> None:
        super().__post_init__()
        self._endpoint = real_path(self.files, str(self.files.on_node(self.socket)))
        self._engine = EngineClient(self.socket, timeout=self.timeout, patience=self.patience)
        self.program = DockerdProgram(self.prefix)
        self.store = LabelStore(files=self.files, root=self._root, stop=self._stop, stopped=self._is_down)
        self._known: dict[str, Details] = {}
        self._last_root: PurePosixPath | None = None

    def info(self) -> RuntimeInfo:
        about, version = self._engine.read("/info"), str(self._engine.read("/version").get("Version", ""))
        unit = self.services.status(UNIT)
        process = find_daemon(self._endpoint, unit.main_pid, self.processes, self.files)
        return RuntimeInfo(
            name=self.kind.name,
            version=version,
            cri_versions=(),
            binary_version=self._version_on_disk(unit),
            cgroup_driver=about.get("CgroupDriver") or None,
            process=process,
            places=self._places(about, process),
            objections=tuple(objections(about, version_numbers(version))),
        )

    def inventory(self, *, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        """Make one call, and one for each new container that kubelets see.

        Details are cached unless they are requested: most never change. The start time in ``/proc`` detects an outdated
        PID.
        """
        listed = shown_to_kubelets(self._engine.containers())
        ids = [str(entry.get("Id")) for entry in listed]
        present = frozenset(ids)
        requested = frozenset(i for i, entry in zip(ids, listed, strict=True) if full or pod_uid(entry) in of)
        wanted = [i for i, entry in zip(ids, listed, strict=True) if i in requested or self._is_unknown(i, entry)]
        for container_id, inspected in self._engine.inspect(wanted).items():
            self._known[container_id] = read_details(inspected)
        self._known = {i: known for i, known in self._known.items() if i in present}
        return to_inventory(listed, self._known, self.processes, requested=requested, addresses=addresses)

    def next_start(self, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
        return find_next_start(self.files, self.program, unit, running, self._endpoint)

    def restart_hazards(self, seen: RuntimeAtWork) -> RestartHazards:
        return find_hazards(seen)

    def asked_to_stop(self, log: Iterable[str]) -> frozenset[str] | None:  # noqa: ARG002 - see below
        """Return ``None``: dockerd logs requests at level debug only."""
        return None

    def wait_until_answering(self, timeout: float) -> None:
        """Start dockerd if it is stopped."""
        if self._is_down():
            for unit in units(self.services):  # this resets the socket's failures, too
                self.services.start(unit)
        try:
            retry_for(lambda: self._engine.containers(timeout=POLL_DEADLINE, patience=0), timeout, pause=POLL_INTERVAL)
        except Transient as error:
            raise Transient(f"dockerd did not answer within {timeout:g} s; last: {error}") from error

    def _is_unknown(self, container_id: str, listed: Document) -> bool:
        known = self._known.get(container_id)
        return known is None or (is_running(listed) and not known.pid)

    def _stop(self) -> None:
        stop_daemon(self.services, None if self._is_down() else self._engine.read("/info"))

    def _root(self) -> PurePosixPath:
        """Return dockerd's directory, as it reports it or, while it is stopped, as it is configured.

        Raises:
            StepFailed: it is stopped, and its configuration cannot be read.
            Transient: it runs, and does not answer.
        """
        if self._last_root is None:
            if self._is_down():
                self._last_root = self._configured_root()
            else:
                self._last_root = PurePosixPath(str(self._engine.read("/info").get("DockerRootDir", "")))
            if not self._last_root.is_absolute():
                raise StepFailed(f"dockerd keeps its containers in {self._last_root}, which is not an absolute path")
        return self._last_root

    def _configured_root(self) -> PurePosixPath:
        start = self.next_start(unit := self.services.status(UNIT), None)
        if start.places is None:
            why = start.complaint or start.unknown
            raise StepFailed(f"cannot find the containers of {unit.name}, which is stopped: {why}")
        return PurePosixPath(start.places.root)

    def _places(self, about: Document, process: RuntimeProcess | None) -> RuntimePlaces | None:
        """Return dockerd's places; that of its state is known from command line and configuration only."""
        try:
            found = read_settings(self.files, () if process is None else process.words)
        except (ValueError, StepFailed):
            return None
        return RuntimePlaces(
            root=str(about.get("DockerRootDir", "")),
            state=str(real_path(self.files, found.exec_root)),
            address=str(self._endpoint),
        )
