"""The facts about a node that its checks judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.values import ContainerId, Digest, PodRef
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.checks.admission import NOTHING_SEEN, Admission, HostFacts
from nodeupgrade.domain.node.checks.condition import PodConditions
from nodeupgrade.domain.node.checks.drift import NO_DRIFT, Drift
from nodeupgrade.domain.node.checks.files import FilesFound
from nodeupgrade.domain.node.checks.services import Traffic
from nodeupgrade.domain.node.checks.startup import Readiness
from nodeupgrade.domain.node.checks.surroundings import NOTHING_AROUND, HostSurroundings
from nodeupgrade.domain.node.checks.units import UnitsFound, with_programs
from nodeupgrade.domain.node.checks.volumes import NO_VOLUMES, Volumes
from nodeupgrade.domain.node.inventory import ContainerInstance, Inventory, StoredHashes
from nodeupgrade.domain.node.own_uids import NOTHING_KNOWN, OwnUids
from nodeupgrade.domain.node.runtime import (
    AS_CONFIGURED,
    NO_CLIENTS,
    NO_HAZARDS,
    RestartHazards,
    RestartTuning,
    RuntimeAsFound,
    RuntimeClients,
    RuntimeInfo,
    RuntimeSocket,
)
from nodeupgrade.domain.node.units import UnitStart, UnitStatus
from nodeupgrade.domain.pods import Pod, PodContainer
from nodeupgrade.kubelet.flags import Arguments
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """The running kubelet, and the program that replaces it.

    Attributes:
        program: real path of the running program; ``None`` if its file was deleted or replaced since its start.
        started: real path of the program that the unit starts; ``None`` if there is no such file.
        words: its arguments, without the program.
        current: version of the running program.
        since: when the running process was started, in seconds since 1970; ``None`` if that is not known.
        before: digest of the old program on disk.
        arguments: the command line for the new program.
        missing: why the new program is not available; the fields below are unset then.
        staged_version: version that the new program reports; empty if it could not be run.
        staged_output: what it printed.
        staged_is_elf: whether it is an ELF file; the process of a script shows its interpreter, not the script.
        after: digest of the new program.
        arguments_status: exit status of the new program when it parsed them.
        arguments_output: what it printed then.
        free_bytes: free space on the program's filesystem once the new program is staged.
    """

    unit: UnitStatus
    program: str | None
    words: tuple[str, ...]
    current: KubeletVersion | None
    before: Digest | None
    arguments: Arguments
    free_bytes: int
    since: float | None = None
    started: str | None = None
    missing: Finding | None = None
    staged_version: str = ""
    staged_output: str = ""
    staged_is_elf: bool = False
    after: Digest | None = None
    arguments_status: int = 0
    arguments_output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedManifest:
    """A static pod whose manifest was changed while it names the UID that an earlier run wrote."""

    path: str
    pod: PodRef


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Everything that the checks judge, gathered at one time.

    Attributes:
        spec: what the control plane requests for the node.
        state_free_bytes: free space on the filesystem of the journal.
        readiness: what the start of the new kubelet depends on.
        stored: hashes as stored on disk; ``inventory`` has them as the runtime serves them.
        traffic: what clients of the pods depend on.
        hazards: findings that make a restart of the runtime unsafe.
        tuning: temporary settings that would make the runtime's restart gentler.
        clients: the containers that use the runtime's sockets.
        host: properties of the host that pod admission depends on.
        drift: differences between the running kubelet and its next start.
        runtime_found: the running runtime, and the one that would be started.
        socket: the socket that the kubelet connects to.
        kubelet_start: how the kubelet's unit would be started now.
        runtime_start: how the runtime's unit would be started now.
        now: the time when the facts were gathered, by the node's clock.
        volumes_seen: what was found of the node's volumes; checks use ``volumes``.
        seen_around: what was found around the kubelet; checks use ``surroundings``.
        files: the files to exchange; ``None`` if there are none.
        own_uids: the UIDs of static pods that kubelets of this node are known to compute by themselves.
        recreated: static pods that the new kubelet is to replace.
        edited: static pods whose manifest was changed while it names the UID that an earlier run wrote.
        programs: the path that systemd finds for each program that a unit names without one.
    """

    node: Json
    pods: tuple[Pod, ...]
    spec: TaskSpec
    kubelet: KubeletFacts
    runtime: RuntimeInfo
    runtime_unit: UnitStatus
    inventory: Inventory
    stored: Mapping[ContainerId, StoredHashes]
    state_free_bytes: int
    readiness: Readiness
    traffic: Traffic
    runtime_found: RuntimeAsFound
    socket: RuntimeSocket
    kubelet_start: UnitStart
    runtime_start: UnitStart
    now: datetime
    hazards: RestartHazards = NO_HAZARDS
    tuning: RestartTuning = AS_CONFIGURED
    clients: RuntimeClients = NO_CLIENTS
    host: HostFacts = NOTHING_SEEN
    drift: Drift = NO_DRIFT
    volumes_seen: Volumes = NO_VOLUMES
    seen_around: HostSurroundings = NOTHING_AROUND
    files: FilesFound | None = None
    own_uids: OwnUids = NOTHING_KNOWN
    recreated: tuple[PodRef, ...] = ()
    edited: tuple[EditedManifest, ...] = ()
    programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> KubeletVersion:
        """Return the version to upgrade to."""
        return self.spec.target

    @property
    def kubelet_ran(self) -> timedelta | None:
        """Return for how long the kubelet has run; ``None`` if that is not known."""
        since = self.kubelet.since
        return None if since is None else self.now - datetime.fromtimestamp(since, UTC)

    @property
    def admission(self) -> Admission:
        """Return the facts on which the admission of pods depends."""
        layout = self.readiness.layout
        return Admission(
            node=self.node,
            pods=self.pods,
            settings=layout.settings,
            gates=layout.gates,
            current=self.kubelet.current,
            target=self.target,
            host=self.host,
            state=self.readiness.state,
            alone=self.files is not None,
        )

    @property
    def way_back(self) -> Admission:
        """Return the facts on which the admission of pods by the old kubelet depends, with the old files."""
        if self.files is None or self.kubelet.current is None:
            return self.admission
        before, current = self.files.before, self.kubelet.current
        return replace(
            self.admission, settings=before.settings, gates=before.gates, current=current, target=current, alone=False
        )

    @property
    def conditions(self) -> PodConditions:
        """Return the facts about what pods are doing."""
        seen, verify = self.traffic, self.spec.verify
        return PodConditions(
            pods=seen.pods,
            inventory=self.inventory,
            current=seen.current,
            target=seen.target,
            now=self.now,
            lasts=verify.kubelet_down_budget + timedelta(seconds=seen.settle),
        )

    @property
    def volumes(self) -> Volumes:
        """Return the facts about the node's volumes."""
        return replace(
            self.volumes_seen,
            node=self.node,
            pods=self.pods,
            current=self.kubelet.current,
            target=self.target,
            gates=self.readiness.layout.gates,
        )

    @property
    def surroundings(self) -> HostSurroundings:
        """Return the facts about what surrounds the kubelet."""
        return replace(
            self.seen_around,
            node=self.node,
            pods=self.pods,
            settings=self.readiness.layout.settings,
            gates=self.readiness.layout.gates,
            current=self.kubelet.current,
            target=self.target,
            program=self.kubelet.program or "",
            package_policy=self.spec.kubelet.package,
        )

    @property
    def units(self) -> UnitsFound:
        """Return the units that a run restarts."""
        units = with_programs((self.kubelet.unit, self.runtime_unit), self.programs)
        return UnitsFound(units=units, contents={**self.kubelet_start.files, **self.runtime_start.files})

    def running_pods(self) -> Iterator[Pod]:
        """Return the pods that have a running container."""
        running = {container.pod.uid for container in self.inventory.running()}
        return (pod for pod in self.pods if pod.ref.uid in running)

    def running_containers(self) -> Iterator[tuple[ContainerInstance, Pod, PodContainer]]:
        """Return the running containers whose pods are known, with their specs."""
        pods = {pod.ref.uid: pod for pod in self.pods}
        for instance in self.inventory.running():
            pod = pods.get(instance.pod.uid)
            container = None if pod is None else pod.container(instance.name)
            if pod is not None and container is not None:
                yield instance, pod, container
