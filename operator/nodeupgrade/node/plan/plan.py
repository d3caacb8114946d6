"""The plan of one node's run: everything that will be done, decided before anything is touched.

The plan is written to the node's disk before the kubelet stops. From then on the executor needs neither the API server
nor the agent pod to carry it out or to undo it. Its schema is PLAN_SCHEMA.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nodeupgrade.api.reasons import Severity
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.values import BootIdentity, ContainerId, Digest, MonotonicSeconds, NodeName, PodRef, PodUid, RunId
from nodeupgrade.cluster.owner_changes import Planned
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.layout import DEVICE_STATE, POD_LOGS, state_name, state_place
from nodeupgrade.kubelet.served_ports import ServedPort
from nodeupgrade.kubelet.state_files.formats import breaks
from nodeupgrade.kubelethash import HashValue, KubeletVersion
from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.names_beside import backup_path
from nodeupgrade.node.plan.derived_uids import OwnUids
from nodeupgrade.node.runtimes.description import RestartTuning
from nodeupgrade.node.runtimes.inventory import ContainerInstance, Inventory, StoredHashes

PLAN_SCHEMA = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedContainer:
    """One running container, with its stored hashes and the hashes to write."""

    id: ContainerId
    name: str
    pod: PodRef
    before: StoredHashes
    after: StoredHashes
    compared: bool  # whether the kubelet that ran it compares its hash, so that the stored value was proven
    # whether it may exit with code 0 during the run: init and ephemeral containers, and regular ones whose
    # restartPolicy, or else that of their pod, is not Always
    may_complete: bool
    # whether its end is ignored: it belongs to the agent's pod, or to a static pod that the new kubelet is to replace
    expendable: bool = False
    restarts_itself: bool = False  # whether a kubelet starts it again when it has failed
    sockets: tuple[str, ...] = ()  # the runtime's sockets that it has mounted as files
    connected: bool = False  # whether it was connected to the runtime when the run was planned
    # the minor version that computes the stored hash, as in 1.30; None if no hash of it is rewritten
    written_by: str | None = None
    # whether a start of it is judged by more than its hash: it has a startup probe or a postStart hook, or pods that
    # were restarted may be rejected
    start_matters: bool = False
    has_devices: bool = False  # whether it asks for some, unless that they are lost is accepted

    @property
    def label(self) -> str:
        """``namespace/pod/container``, as shown to people."""
        return f"{self.pod}/{self.name}"

    @property
    def may_end_with_runtime(self) -> bool:
        """Whether it may exit because the runtime is restarted, since a kubelet starts it again."""
        return self.connected and self.restarts_itself

    @property
    def changes(self) -> bool:
        """Report whether anything has to be written."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletingPod:
    """A pod that is over once all of its regular containers have ended."""

    pod: PodUid
    regular: tuple[str, ...]  # their names
    retried: tuple[str, ...] = ()  # the names of those that are started again if they end with another exit code than 0
    initial: tuple[str, ...] = ()  # the names of the init containers whose failure ends the pod before those begin


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedContainer:
    """A container that does not run but may start at any moment, and the hash that each kubelet would store with it."""

    pod: PodUid
    name: str
    before: HashValue
    after: HashValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomers:
    """Pods that were added to the node, or changed, after its run was planned, as the agent reports them."""

    pods: tuple[PodUid, ...] = ()  # all of them
    # those of their containers whose hash differs between the two kubelets
    containers: tuple[AwaitedContainer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKubelet:
    """What the API server shows of the node's kubelet, as the agent reports it."""

    at: float  # when the agent looked, in seconds of AwakeTime
    answered: bool  # whether the API server answered it
    version: str | None = None  # status.nodeInfo.kubeletVersion; None if it did not answer, or if there is no Node


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPodPin:
    """A static pod manifest that gets ``metadata.uid``, so that its pod keeps its identity, or loses it again."""

    path: str  # manifest on the node
    uid: str  # the UID the pod runs under now
    before: Digest  # digest of the manifest as planned
    content: bytes  # the manifest with the UID added or taken out, every other byte unchanged
    removes: bool = False  # whether the UID is taken out


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsOverride:
    """A systemd drop-in that starts the kubelet without flags that the new version does not know, or with one more."""

    path: str  # the drop-in file
    content: bytes  # its text


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSwap:
    """The swap of the kubelet's program."""

    unit: str
    path: str  # the running kubelet's program; a regular file
    staged: str  # the new program, on the same filesystem
    backup: str  # where the old program is kept until the next run
    before: Digest  # digest of the old program
    after: Digest  # digest of the new program
    arguments: ArgumentsOverride | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangedFile:
    """A file that is exchanged together with the kubelet. Its content is in neither plan nor journal."""

    path: str
    staged: str  # the new file, in the same directory
    backup: str  # where the old file is kept until the run is over
    before: Digest | None  # digest of the old file; None if there was none
    after: Digest  # digest of the new file
    also: tuple[str, ...] = ()  # the other names under which the kubelet's start reads it, through symbolic links


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Timeouts and retries of a run; times in seconds."""

    # the kubelet-down budget: for all time without a kubelet, a rollback included
    kubelet_down: float = VerifySettings().kubelet_down_budget.total_seconds()
    settle: float = VerifySettings().settle.total_seconds()  # the settle period, before the commit
    # how long the API server may answer the agent before it shows the new kubelet
    node_status: float = VerifySettings().node_ready_timeout.total_seconds()
    runtime_restart: float = 120.0  # how long the runtime may take to answer after its restart
    undo_attempts: int = 5  # how often one undo has to fail at least before the run ends as Degraded
    # how long the old kubelet is refused what it wants to end
    shield_hold: float = VerifySettings().shield_hold.total_seconds()
    keep_lease: bool = True  # whether the node's Lease is renewed while the kubelet is down, until the budget is spent

    @property
    def rollback_settle(self) -> float:
        """Return the settle period of an old kubelet; it synchronises every pod in its first seconds."""
        return min(self.settle, 15.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopHook:
    """A command that a kubelet executes in a container before it stops it, and for no other purpose."""

    container: ContainerId
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShieldPlan:
    """How the shield protects the containers of the baseline. See docs/decisions/shield.md."""

    socket: str  # path of the runtime's socket, without symbolic links
    required: bool = False  # whether the run must not start the new kubelet without the shield
    # whether it leaves the runtime's path as soon as the runtime has ended, which would not start again otherwise
    steps_aside: bool = False
    # how many seconds it serves calls in flight once lowered: as long as a container of the node may take to stop
    serves_on: float = 60.0
    hooks: tuple[StopHook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that the executor needs."""

    schema: int
    run_id: RunId
    node: NodeName
    upgrade: str
    from_version: str
    to_version: str
    runtime: str  # name and version of the runtime, separated by a blank
    runtime_unit: str
    runtime_endpoint: str  # path of the runtime's socket
    healthz_url: str  # URL of the kubelet's health endpoint
    swap: KubeletSwap
    containers: tuple[PlannedContainer, ...]
    baseline: Inventory
    pins: tuple[StaticPodPin, ...] = ()
    # what the old kubelet reads when it starts; a rollback restores what the new one has made unreadable for it
    state_files: tuple[str, ...] = ()
    limits: Limits = Limits()
    kubeconfig: str | None = None  # the kubelet's credentials, for renewing its Lease
    # the boot that the plan was made in; the plan is valid for no other, and so for no other node
    boot: BootIdentity | None = None
    cautions: tuple[Finding, ...] = ()  # warnings, reported for as long as the run is
    tuning: RestartTuning = RestartTuning()  # temporary settings for the runtime's restart
    awaited: tuple[AwaitedContainer, ...] = ()  # containers of the node's pods that do not run now
    kubelet_start: UnitStart | None = None  # how the kubelet's unit was started when the run was planned
    runtime_start: UnitStart | None = None  # likewise the runtime's
    shield: ShieldPlan | None = None  # how the shield is raised; None if the run goes without it
    exchanged: tuple[ExchangedFile, ...] = ()  # files to exchange together with the kubelet
    # the package that the kubelet's program belongs to, as found; None if it belongs to none
    package: Package | None = None
    holds_package: bool = False  # whether the run holds it
    cgroups: ExpectedCgroups = ExpectedCgroups()  # cgroups of running pods that were complete when the run was planned
    recreated: tuple[PodUid, ...] = ()  # static pods that the new kubelet is to replace
    pinned: tuple[str, ...] = ()  # manifests of static pods that keep the UID which an earlier run wrote
    own_uids: OwnUids = OwnUids()  # the UIDs that kubelets of this node were known to compute by themselves
    gates: tuple[str, ...] = ()  # the running kubelet's feature gates, as in OwnUid
    # the pods that end by themselves, so that a kubelet stops their sidecars
    completing: tuple[CompletingPod, ...] = ()
    owned: Planned = Planned()  # what owners wanted, so that what they change during the run is told apart
    # the ports that the new kubelet serves on, and those of the old one
    ports: tuple[ServedPort, ...] = ()
    old_ports: tuple[ServedPort, ...] = ()
    examined_at: str | None = None  # when the facts were gathered that the run was planned from
    examined: MonotonicSeconds | None = None  # likewise in seconds since that boot, which no clock that is set changes
    logs: str = str(POD_LOGS)  # where the runtime writes the logs of pods
    runtime_root: str | None = None  # the runtime's directory; None if it does not report it

    @property
    def runtime_name(self) -> str:
        """Return the runtime's name, without its version."""
        return self.runtime.partition(" ")[0]

    @property
    def runtime_version(self) -> str:
        """Return its version."""
        return self.runtime.partition(" ")[2]

    @property
    def hold(self) -> Package | None:
        """Return the package to hold; ``None`` if there is none."""
        return self.package if self.holds_package else None

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Return the warnings; plans of earlier versions do not record their severity."""
        return tuple(replace(caution, severity=Severity.WARN) for caution in self.cautions)

    def files(self) -> tuple[str, ...]:
        """Return every file that the run may write."""
        swap = self.swap
        override = () if swap.arguments is None else (swap.arguments.path,)
        beside = (path for file in self.exchanged for path in (file.path, file.backup, file.staged))
        own = (swap.path, swap.backup, swap.staged, *override, *(pin.path for pin in self.pins))
        return (*own, *(str(state_place(path)) for path in self.state_files), *beside)

    def kept(self) -> Mapping[str, str]:
        """Return the copies of files that may have to be put back, by path: see run/kept_files.py.

        Not of a file that pods may exchange, nor of one that has a copy.
        """
        old, new = map(KubeletVersion.parse, (self.from_version, self.to_version))
        own = () if self.swap.arguments is None else (self.swap.arguments.path,)
        changed = (path for path in self.state_files if breaks(state_name(path), old, new))
        state = (path for path in changed if not path.endswith(DEVICE_STATE))
        return {path: backup_path(path) for path in (*(pin.path for pin in self.pins), *own, *state)}

    def temporary(self, *, keeping_old: bool) -> tuple[str, ...]:
        """Return the files that only the run needs; copies of old files may be kept for a manual repair."""
        backups = (file.backup for file in self.exchanged if file.before is not None)
        copies = () if keeping_old else (*backups, *self.kept().values())
        return (self.swap.staged, *(file.staged for file in self.exchanged), *copies)

    def pods(self) -> frozenset[PodUid]:
        """Return the pods whose specs the plan was made from.

        Of another pod, the runtime may hold something already: the API server was asked before the runtime.
        """
        specs = {spec.pod for spec in self.owned.containers} | {source.pod for source in self.owned.manifests}
        awaited = {container.pod for container in self.awaited}
        return frozenset(container.pod.uid for container in self.containers) | awaited | specs

    def watched(self) -> Inventory:
        """Return what was there when the run was planned and has to survive it."""
        return self.baseline.without(self.expendable())

    def expendable(self) -> frozenset[PodUid]:
        """Return the pods that need not survive the run."""
        return frozenset(c.pod.uid for c in self.containers if c.expendable)

    def to_recreate(self) -> tuple[ContainerInstance, ...]:
        """Return the containers of the static pods that the new kubelet is to replace."""
        return tuple(c for c in self.baseline.running() if c.pod.uid in self.recreated)

    def rewrites(self) -> tuple[PlannedContainer, ...]:
        """Return the containers whose stored hash has to change."""
        return tuple(c for c in self.containers if c.changes)
