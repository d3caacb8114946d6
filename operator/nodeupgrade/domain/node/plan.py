"""What is going to be done to one node, decided completely before anything is touched.

The plan is written to the node's disk before the kubelet is stopped; from then on neither the API server nor
the agent pod is needed to carry it out or to undo it.
"""

from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.values import BootIdentity, ContainerId, Digest, NodeName, PodRef, PodUid, RunId
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.inventory import Inventory, StoredHashes
from nodeupgrade.domain.node.runtime import AS_CONFIGURED, RestartTuning
from nodeupgrade.domain.node.unit_start import UnitStart
from nodeupgrade.kubelethash import HashValue

PLAN_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A finding that forbids nothing, as the plan keeps it on disk."""

    reason: Reason
    detail: str

    @property
    def finding(self) -> Finding:
        """What it was written from."""
        return Finding(reason=self.reason, detail=self.detail, severity=Severity.WARN)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedContainer:
    """One running container and the hashes it has and shall have.

    Attributes:
        compared: whether the kubelet that ran it compares its hash, so that the stored value was proven.
        may_complete: whether it may end by itself with exit code 0 without anything being wrong (init and
            ephemeral containers, and pods whose restart policy is not Always).
        expendable: whether its end is of no concern, however it comes: it belongs to the agent's pod, and the run
            goes on without an agent.
    """

    id: ContainerId
    name: str
    pod: PodRef
    before: StoredHashes
    after: StoredHashes
    compared: bool
    may_complete: bool
    expendable: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything has to be written."""
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedContainer:
    """A container that does not run, but may any moment, and the hash that either kubelet would give it."""

    pod: PodUid
    name: str
    before: HashValue
    after: HashValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomers:
    """Pods that came to the node after its run was planned, as the agent tells of them.

    Attributes:
        pods: all of them.
        containers: their containers whose hash depends on the kubelet.
    """

    pods: tuple[PodUid, ...] = ()
    containers: tuple[AwaitedContainer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPodPin:
    """A static pod manifest that gets ``metadata.uid``, so that its pod keeps its identity.

    Attributes:
        path: manifest on the node.
        uid: the UID the pod runs under now.
        before: digest of the manifest as planned.
        content: the manifest with the UID added and every other byte unchanged.
    """

    path: str
    uid: str
    before: Digest
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsOverride:
    """A systemd drop-in that starts the kubelet without flags the new version no longer knows.

    Attributes:
        path: the drop-in file.
        content: its text.
        removed: the flags left out, for people.
    """

    path: str
    content: bytes
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSwap:
    """The program that is exchanged.

    Attributes:
        path: where the running kubelet's program lies; a regular file.
        staged: the new program, on the same filesystem.
        backup: where the old program is kept until the next run.
        before: digest of the old program.
        after: digest of the new program.
    """

    unit: str
    path: str
    staged: str
    backup: str
    before: Digest
    after: Digest
    arguments: ArgumentsOverride | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may take, in seconds.

    Attributes:
        kubelet_down: the kubelet-down budget: for all the time without a kubelet, a rollback included.
        settle: how long everything must hold before the run is committed.
        runtime_restart: how long the runtime may take to answer again.
        undo_attempts: how often one undo may fail before automation stops.
        keep_lease: whether the node's Lease is renewed while the kubelet is down, until the budget is spent.
    """

    kubelet_down: float = VerifySettings().kubelet_down_budget.total_seconds()
    settle: float = VerifySettings().settle.total_seconds()
    runtime_restart: float = 120.0
    undo_attempts: int = 5
    keep_lease: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything the executor needs, and nothing it would have to ask for.

    Attributes:
        runtime: name and version of the runtime, a blank between them.
        runtime_endpoint: path of the runtime's socket.
        healthz_url: where the kubelet answers about its health.
        state_files: files of the kubelet whose format an older kubelet may refuse; saved before the new
            kubelet starts and put back on a rollback.
        kubeconfig: the kubelet's credentials, for renewing its Lease.
        boot: the boot of the node that was looked at; the plan is for no other, and so for no other node.
        cautions: what people should know of, for as long as anybody tells of the run.
        tuning: what makes the runtime's restart gentler.
        awaited: containers of the node's pods that do not run now.
        kubelet_start: how the kubelet's unit was started when the run was planned.
        runtime_start: likewise the runtime's.
    """

    schema: int
    run_id: RunId
    node: NodeName
    upgrade: str
    from_version: str
    to_version: str
    runtime: str
    runtime_unit: str
    runtime_endpoint: str
    healthz_url: str
    swap: KubeletSwap
    containers: tuple[PlannedContainer, ...]
    baseline: Inventory
    pins: tuple[StaticPodPin, ...] = ()
    state_files: tuple[str, ...] = ()
    limits: Limits = Limits()
    kubeconfig: str | None = None
    boot: BootIdentity | None = None
    cautions: tuple[Caution, ...] = ()
    tuning: RestartTuning = AS_CONFIGURED
    awaited: tuple[AwaitedContainer, ...] = ()
    kubelet_start: UnitStart | None = None
    runtime_start: UnitStart | None = None

    @property
    def runtime_name(self) -> str:
        """Which kind of runtime it is."""
        return self.runtime.partition(" ")[0]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What people should know of, as it was found."""
        return tuple(caution.finding for caution in self.cautions)

    def files(self) -> tuple[str, ...]:
        """Every file that the run may write."""
        swap = self.swap
        override = () if swap.arguments is None else (swap.arguments.path,)
        return (swap.path, swap.backup, swap.staged, *override, *(pin.path for pin in self.pins), *self.state_files)

    def pods(self) -> frozenset[PodUid]:
        """Pods that were on the node when the run was planned."""
        present = {sandbox.pod.uid for sandbox in self.baseline.sandboxes}
        present |= {container.pod.uid for container in self.baseline.containers}
        return frozenset(present).union(container.pod for container in self.awaited)

    def rewrites(self) -> tuple[PlannedContainer, ...]:
        """Containers whose stored hash has to change."""
        return tuple(c for c in self.containers if c.changes)
