"""The facts about a node that its checks judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.values import ContainerId, Digest, MonotonicSeconds, PodRef
from nodeupgrade.cluster.pods import Pod, PodContainer
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import RESIZE_GATE, allocates_pod_resources, is_on
from nodeupgrade.kubelet.flags import Arguments
from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.kubelet.restart_policies import heeds_containers
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelet.state_files.device_checkpoint import DeviceCheckpoint, read_devices
from nodeupgrade.kubelet.user_ids import UserIds
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.files import FilesFound
from nodeupgrade.node.checks.startup import Readiness
from nodeupgrade.node.checks.traffic import Traffic
from nodeupgrade.node.host.files.mounted_volumes import MountedVolumes
from nodeupgrade.node.host.packages.dpkg_database import DpkgState, Package
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.plan.derived_uids import OwnUids
from nodeupgrade.node.plan.static_pod_uids import StaticPod
from nodeupgrade.node.runtimes.description import (
    RestartHazards,
    RestartTuning,
    RuntimeAsFound,
    RuntimeInfo,
    RuntimeSocket,
)
from nodeupgrade.node.runtimes.inventory import ContainerInstance, Inventory, StoredHashes
from nodeupgrade.node.runtimes.runtime import RuntimeClients


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Properties of the host that admission depends on."""

    apparmor: bool = False  # whether AppArmor is enabled in the kernel
    profiles: frozenset[str] = frozenset()  # the loaded AppArmor profiles, as far as they can be read
    numa_nodes: int = 1  # number of NUMA nodes
    device_plugins: frozenset[str] = frozenset()  # names of the sockets of device plugins
    seccomp: frozenset[str] = frozenset()  # the seccomp profiles that pods name and the node has
    # the kubelet's records of user namespaces, by UID of the pod; pods without a record are missing
    namespaces: Mapping[str, bytes] = field(default_factory=dict)
    lacks_getsubids: bool = False  # whether there is a user `kubelet`, but not the program that lists its user IDs
    user_ids: UserIds = UserIds()  # what that program lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The facts that the checks of admission judge."""

    node: Json  # the Node object
    pods: tuple[Pod, ...]  # the node's pods, static ones taken from their manifests
    settings: Configured  # the configuration that the kubelet will start with
    gates: Mapping[str, bool]  # feature gates that are set
    current: KubeletVersion | None  # the kubelet that a rollback would start; None if its version is unknown
    target: KubeletVersion
    host: HostFacts = HostFacts()
    hostname: str = ""  # as in Surroundings
    # content of the kubelet's state files, by their path below its root directory
    state: Mapping[str, bytes] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)  # of the host now, as in StartingHost
    # pod and name of each container that the runtime shows running, as a kubelet asks it when it starts
    running: frozenset[tuple[PodRef, str]] = frozenset()
    begun: frozenset[PodRef] = frozenset()  # the pods of which it shows a ready sandbox
    alone: bool = False  # whether only the new kubelet would start with this configuration

    @property
    def devices(self) -> DeviceCheckpoint | None:
        """Return what the kubelet has noted of devices; ``None`` if it would find nothing that it can read."""
        return read_devices(self.state.get(DEVICE_STATE))

    @property
    def starting(self) -> tuple[KubeletVersion, ...]:
        """Return the kubelets that may be started so: the new one, and by a rollback the old one."""
        return (self.target,) if self.current is None or self.alone else (self.target, self.current)

    @property
    def as_allocated(self) -> bool:
        """Whether each of these admits a pod by the resources that were allocated to it, not by those in its spec."""
        is_recorded = is_on(self.gates, RESIZE_GATE, by_default=True)
        return is_recorded and all(map(history.RESIZE_POLICY_ACTED_ON.applies_to, self.starting))

    def admitted(self) -> Iterator[Pod]:
        """Return the pods that are admitted again: all that have not finished."""
        return (pod for pod in self.pods if not pod.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """The running kubelet, and the program that replaces it."""

    unit: UnitStatus
    program: str | None  # real path of the running program; None if its file was deleted or replaced since its start
    words: tuple[str, ...]  # its arguments, without the program
    current: KubeletVersion | None  # version of the running program
    before: Digest | None  # digest of the old program on disk
    arguments: Arguments  # the command line for the new program
    free_bytes: int  # free space on the program's filesystem once the run has stored all that it needs
    # free space there now, if the new program has still to be staged; None if it is staged
    unstaged_free_bytes: int | None = None
    since: float | None = None  # when the running process was started, in seconds since 1970; None if that is not known
    started: str | None = None  # real path of the program that the unit starts; None if there is no such file
    missing: Finding | None = None  # why the new program is not available; the fields below are unset then
    staged_version: str = ""  # version that the new program reports; empty if it could not be run
    staged_output: str = ""  # what it printed
    # whether it is an ELF file; the process of a script shows its interpreter, not the script
    staged_is_elf: bool = False
    after: Digest | None = None  # digest of the new program
    arguments_status: int = 0  # exit status of the new program when it parsed them
    arguments_output: str = ""  # what it printed then


OLDEST_SYSTEMD = 219
"""Of CentOS 7 and Amazon Linux 2. The fence is an assertion (AssertPathExists), which version 218 brought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodCgroups:
    """The cgroups of the running pods."""

    base: str  # cgroup of all pods, as the kubelet's configuration names it
    exists: bool  # whether it is there
    # by pod, what its cgroup lacks: controllers, or hierarchies in which it does not exist
    incomplete: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # those of them that have ended since the runtime was asked: none of the processes that it named is there any more
    ended: frozenset[str] = frozenset()
    complete: ExpectedCgroups = ExpectedCgroups()  # those that lack nothing
    # memory that all pods together may use now, in bytes; None if there is no limit or it is unknown
    limit: int | None = None
    used: int | None = None  # memory that they use and that cannot be reclaimed, in bytes; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim that a pod uses, and its PersistentVolume, as a kubelet that starts finds them."""

    pod: str
    name: str
    volume: str = ""  # the pod's name for the volume
    deleting: bool = False  # whether it is being deleted
    unread: str = ""  # why one of the two could not be read now; empty if both were, or if the claim is unfit
    unfit: str = ""  # why any kubelet that starts unmounts the volume; empty if none does for that
    passes: bool = False  # whether that may pass, because the API server denied it or did not answer now
    access_modes: tuple[str, ...] = ()  # of the PersistentVolume
    takes_label: bool = True  # whether its plugin can mount it with an SELinux label, as far as that is known
    # the SELinux label with which a CSI driver has mounted it, empty if with none; None if that is not known
    mounted_label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What surrounds the kubelet on its host."""

    ends_all: bool = True  # whether stopping the kubelet's unit ends all processes in its cgroup
    systemd: int = OLDEST_SYSTEMD  # its version
    hostname: str = ""  # of the host; empty if unknown
    filesystem: str = ""  # type of the filesystem that holds the kubelet's directory; empty if unknown
    # type of the filesystem that holds the kubelet's program, if it is another machine's; empty if it is not
    remote_program: str = ""
    bound: tuple[str, ...] = ()  # services that run now and stop with the kubelet
    # processes in the kubelet's cgroup whose parent has ended, each with its PID: ``glusterfs (77)``
    daemons: tuple[str, ...] = ()
    package_jobs: tuple[str, ...] = ()  # services that run now and may exchange programs
    updaters: tuple[str, ...] = ()  # services that are active and may begin an upgrade or a boot at any time
    installers: tuple[str, ...] = ()  # units that are there and install a kubelet when the node boots, or later
    marking: tuple[str, ...] = ()  # configuration files of the network that refer to a chain which kubelets created
    package: Package | None = None  # the package that it belongs to; None if it belongs to none
    package_assumed: bool = False  # whether that was not asked, but is assumed
    dpkg: DpkgState | None = None  # whether a package can be held now; None if none has to be
    # None if the kubelet has none for its pods, or if it is unknown how it names them
    cgroups: PodCgroups | None = None
    # by container, the devices that it may use and loses by a daemon-reload, as the kernel writes them: ``c 195:0 rw``
    fragile_devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mounted: MountedVolumes = MountedVolumes()  # the volumes that are mounted
    claims: tuple[VolumeClaim, ...] = ()  # the claims of the pods
    selinux: bool = False  # whether SELinux is on, even if it enforces nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Everything that the checks judge, gathered at one time."""

    node: Json
    pods: tuple[Pod, ...]
    spec: TaskSpec  # what the control plane requests for the node
    namespace: str  # the operator's own
    kubelet: KubeletFacts
    runtime: RuntimeInfo
    runtime_unit: UnitStatus
    inventory: Inventory
    # hashes as stored on disk; ``inventory`` has them as the runtime serves them
    stored: Mapping[ContainerId, StoredHashes]
    state_free_bytes: int  # likewise where its journal, programs and files are stored: the least
    readiness: Readiness  # what the start of the new kubelet depends on
    traffic: Traffic  # what clients of the pods depend on
    runtime_found: RuntimeAsFound  # the running runtime, and the one that would be started
    socket: RuntimeSocket  # the socket that the kubelet connects to
    kubelet_start: UnitStart  # how the kubelet's unit would be started now
    runtime_start: UnitStart  # how the runtime's unit would be started now
    now: datetime  # the time when the facts were gathered, by the node's clock
    at: MonotonicSeconds  # likewise since its boot: no clock that is set changes it
    hazards: RestartHazards = RestartHazards()  # findings that make a restart of the runtime unsafe
    tuning: RestartTuning = RestartTuning()  # temporary settings that would make the runtime's restart gentler
    clients: RuntimeClients = RuntimeClients()  # the containers that use the runtime's sockets
    host: HostFacts = HostFacts()  # properties of the host that pod admission depends on
    drift: Drift = Drift()  # differences between the running kubelet and its next start
    around: Surroundings = Surroundings()
    # why the credentials that a program prints for the kubelet cannot be used; empty if they can, or it has its own
    unusable_credentials: str = ""
    files: FilesFound | None = None  # the files to exchange; None if there are none
    # the UIDs of static pods that kubelets of this node are known to compute by themselves
    own_uids: OwnUids = OwnUids()
    restarts_runtime: bool = True  # whether hashes are to be rewritten, for which the runtime is restarted
    recreated: tuple[PodRef, ...] = ()  # static pods that the new kubelet is to replace
    # static pods whose manifest was changed while it names the UID that an earlier run wrote
    edited: tuple[StaticPod, ...] = ()
    # the path that systemd finds for each program that a unit names without one
    programs: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> KubeletVersion:
        """Return the version to upgrade to."""
        return self.spec.target

    @property
    def current(self) -> KubeletVersion | None:
        """Return the version of the running kubelet, which a rollback would start; ``None`` if it is not known."""
        return self.kubelet.current

    @property
    def settings(self) -> Configured:
        """Return the configuration that the new kubelet will start with."""
        return self.readiness.layout.settings

    @property
    def gates(self) -> Mapping[str, bool]:
        """Return the feature gates that are set in it."""
        return self.readiness.layout.gates

    @property
    def gates_before(self) -> Mapping[str, bool]:
        """Return the feature gates that are set in the running kubelet: as it reports them, else as its files do."""
        if self.drift.gates is not None:
            return self.drift.gates
        return self.gates if self.files is None else self.files.before.gates

    @property
    def heeding(self) -> tuple[bool, bool]:
        """Return whether the running and the new kubelet heed the restart policies of single containers."""
        before = self.current is not None and heeds_containers(self.current, self.gates_before)
        return before, heeds_containers(self.target, self.gates)

    @property
    def recorded(self) -> bool:
        """Whether the running kubelet, from 1.33 on, keeps a record of the resources that it has allocated."""
        return self.gates_before.get(RESIZE_GATE) is not False

    @property
    def allocating(self) -> tuple[bool, bool]:
        """Return whether the running and the new kubelet allocate resources of pods themselves."""
        before = self.current is not None and allocates_pod_resources(self.current, self.gates_before)
        return before, allocates_pod_resources(self.target, self.gates)

    @property
    def admission(self) -> Admission:
        """Return the facts on which the admission of pods depends."""
        layout = self.readiness.layout
        return Admission(
            node=self.node,
            pods=self.pods,
            settings=layout.settings,
            gates=layout.gates,
            current=self.current,
            target=self.target,
            host=self.host,
            hostname=self.around.hostname,
            state=self.readiness.state,
            capacity=self.readiness.host.capacity,
            running=frozenset((container.pod, container.name) for container in self.inventory.running()),
            begun=frozenset(sandbox.pod for sandbox in self.inventory.sandboxes if sandbox.ready),
            alone=self.files is not None,
        )

    @property
    def way_back(self) -> Admission:
        """Return the facts on which the admission of pods by the old kubelet depends, with the old files."""
        if self.files is None or self.current is None:
            return self.admission
        before, current = self.files.before, self.current
        return replace(
            self.admission, settings=before.settings, gates=before.gates, current=current, target=current, alone=False
        )

    @property
    def lasts(self) -> timedelta:
        """Return how long a run may take, from the kubelet's stop to the end of its watch."""
        return self.spec.verify.kubelet_down_budget + timedelta(seconds=self.traffic.settle)

    @property
    def units(self) -> tuple[UnitStatus, ...]:
        """Return the units that a run restarts; a program without a path has the one that systemd finds."""
        paths = self.programs
        return tuple(
            replace(unit, commands=tuple(replace(c, program=paths.get(c.program, c.program)) for c in unit.commands))
            for unit in (self.kubelet.unit, self.runtime_unit)
        )

    @property
    def starts(self) -> tuple[UnitStart, ...]:
        """Return how the units are started that a run starts: the runtime's only if hashes are to be rewritten."""
        return (self.kubelet_start, *((self.runtime_start,) if self.restarts_runtime else ()))

    def running_pods(self) -> Iterator[Pod]:
        """Return the pods that have a running container."""
        running = {container.pod for container in self.inventory.running()}
        return (pod for pod in self.pods if pod.ref in running)

    def running_containers(self) -> Iterator[tuple[ContainerInstance, Pod, PodContainer]]:
        """Return the running containers whose pods are known, with their specs."""
        pods = {pod.ref: pod for pod in self.pods}
        for instance in self.inventory.running():
            pod = pods.get(instance.pod)
            container = None if pod is None else pod.container(instance.name)
            if pod is not None and container is not None:
                yield instance, pod, container
