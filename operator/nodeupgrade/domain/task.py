"""NodeUpgradeTask: one node's share of a rollout, the object in which control plane and node side meet.

The control plane writes the spec, the node side writes the status, and nobody sends anybody a message.
A status counts only for the run it names, so what an earlier attempt left behind cannot be mistaken for news.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.run_settings import HashMode, KubeletSettings, VerifySettings
from nodeupgrade.domain.values import NodeName, RunId
from nodeupgrade.domain.wire import Json, from_json

BASELINE_ANNOTATION = "nodeupgrade.dev/baseline"
UPGRADE_LABEL = "nodeupgrade.dev/upgrade"

LOOKING = "-plan"
"""How the identifier of a run ends that is only to look, for ``action: Plan``; so it is told apart for good."""


class TaskAction(StrEnum):
    """What the control plane wants of the node side."""

    WAIT = "Wait"
    """Do nothing yet: the node is claimed by a rollout and waits for its turn."""
    PRECHECK = "Precheck"
    """Look, prove and report what an upgrade would do; touch nothing."""
    UPGRADE = "Upgrade"
    """Upgrade the node; the only action that admits work."""
    ABORT = "Abort"
    """Stop and roll back unless the run is committed."""
    RELEASE = "Release"
    """The run is over and accounted for; the task may be claimed by another NodeUpgrade."""


class TaskPhase(StrEnum):
    """What is true of the node's run."""

    PENDING = "Pending"
    STAGING = "Staging"
    PRECHECKING = "Prechecking"
    PRECHECKED = "Prechecked"
    """Asked to look only: nothing objects to an upgrade; ``preview`` says what it would do."""
    REFUSED = "Refused"
    """Preflight said no; the node is untouched."""
    RUNNING = "Running"
    """The executor on the host has taken over."""
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"
    FAILED = "Failed"
    """Given up before anything was touched, for a technical reason such as a failed download."""

    @property
    def terminal(self) -> bool:
        """Whether the run is over."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        TaskPhase.PRECHECKED,
        TaskPhase.REFUSED,
        TaskPhase.SUCCEEDED,
        TaskPhase.ROLLED_BACK,
        TaskPhase.ROLLBACK_FAILED,
        TaskPhase.FAILED,
    }
)


class ArtifactKind(StrEnum):
    """Where the kubelet binary comes from."""

    IMAGE = "Image"
    URL = "URL"
    PRE_STAGED = "PreStaged"


class StepResult(StrEnum):
    """What the journal truthfully knows of a step."""

    DOING = "Doing"
    DONE = "Done"
    FAILED = "Failed"
    UNDOING = "Undoing"
    UNDONE = "Undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRef:
    """The NodeUpgrade that holds the task."""

    name: str
    uid: str
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArtifact:
    """The kubelet binary for one node's platform, fully resolved.

    Attributes:
        kind: which of the following count.
        ref: image reference pinned by digest (Image).
        path: absolute path inside the image (Image) or on the node (PreStaged).
        url: where to download from (URL).
        sha256: 64 lower-case hexadecimal digits (URL, PreStaged).
        pull_secret: Secret in the operator's namespace to pull the image with (Image).
    """

    kind: ArtifactKind
    ref: str | None = None
    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    pull_secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRecord:
    """Who cordoned the node: ``was_unschedulable`` before the run, ``by_us`` for the run."""

    was_unschedulable: bool = False
    by_us: bool = False


class Verdict(StrEnum):
    """How the control plane counts a finished run."""

    PRECHECKED = "Prechecked"
    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """How an earlier run on this node ended, kept when the task is claimed anew (at most 5)."""

    upgrade: str
    from_version: str
    to_version: str
    result: Verdict
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What the control plane found when it verified the node by itself after the run named by ``run_id``."""

    run_id: RunId
    outcome: Verdict
    reason: Reason
    message: str = ""
    restarted: int = 0
    restarted_list: tuple[str, ...] = ()
    decided_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What the control plane wants of one node, and what it found in the end. Times are UTC.

    Attributes:
        wave: name of the wave the node belongs to.
        order: place of the node in the rollout, counted from 0.
        retry: token of the retry that reopened the task.
    """

    node_name: NodeName
    node_uid: str
    upgrade_ref: UpgradeRef
    run_id: RunId
    from_version: str
    to_version: str
    artifact: TaskArtifact
    action: TaskAction = TaskAction.WAIT
    action_reason: str = ""
    action_message: str = ""
    wave: str = ""
    order: int = 0
    retry: str = ""
    allow_downgrade: bool = False
    hash_mode: HashMode = HashMode.REWRITE
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    deadline: datetime | None = None
    cordon: CordonRecord = CordonRecord()
    verdict: RunVerdict | None = None
    history: tuple[PastRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """One step of the run, as the journal tells it (detail at most 128 characters)."""

    name: str
    result: StepResult
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletBinary:
    """A kubelet binary: version, SHA-256 and absolute path."""

    version: str | None = None
    sha256: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStatus:
    """The kubelet before and after, and the seconds in between."""

    before: KubeletBinary | None = None
    after: KubeletBinary | None = None
    down_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """The container runtime, as CRI names it."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCounts:
    """What became of the containers; ``restarted_list`` holds at most 20 of ``namespace/pod/container``."""

    baseline: int = 0
    rewritten: int = 0
    unchanged: int = 0
    restarted: int = 0
    restarted_list: tuple[str, ...] = ()
    ended_list: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Something about a pod that deserves attention or forbids the upgrade."""

    reason: str
    pod: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartForecast:
    """A container that a plain exchange of the kubelet would restart, and why (at most 256 characters)."""

    container: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an upgrade would do on this node; nothing has been touched.

    Attributes:
        rewritten: containers whose stored hash would be rewritten.
        unchanged: containers whose stored hash is right for both versions.
        would_restart: containers that a plain exchange of the kubelet would restart.
        would_restart_list: at most 20 of them.
        static_pods: static pods whose manifest would be pinned.
        removed_flags: kubelet flags that would be left out.
    """

    rewritten: int = 0
    unchanged: int = 0
    would_restart: int = 0
    would_restart_list: tuple[RestartForecast, ...] = ()
    static_pods: int = 0
    removed_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """What the node side says about the run named by ``run_id``.

    Attributes:
        run_id: the run this is about; the control plane ignores any other.
        reason: one of ``nodeupgrade.domain.reasons.Reason``; text, so that a newer agent's
            words can be shown.
        message: a sentence that says what to do, at most 512 characters.
        steps: at most 16.
        hazards: at most 20.
    """

    run_id: str = ""
    observed_generation: int = -1
    phase: TaskPhase = TaskPhase.PENDING
    reason: str = ""
    message: str = ""
    steps: tuple[StepStatus, ...] = ()
    kubelet: KubeletStatus = KubeletStatus()
    runtime: RuntimeStatus = RuntimeStatus()
    containers: ContainerCounts = ContainerCounts()
    hazards: tuple[Hazard, ...] = ()
    preview: Preview | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A NodeUpgradeTask with the marks of the object that carries it.

    Attributes:
        baseline: the node's containers before the run, as ``domain.baseline`` writes them; kept in an annotation
            while the node is in flight, so that it outlives the operator.
    """

    name: NodeName
    uid: str
    resource_version: str
    generation: int
    spec: TaskSpec
    status: TaskStatus = TaskStatus()
    baseline: str = ""

    @property
    def only_looked(self) -> bool:
        """Whether its run is, or was, only to look."""
        return self.spec.run_id.endswith(LOOKING)

    @property
    def open(self) -> bool:
        """Whether the node side may be at work on it, or what it did is still to be judged."""
        return self.spec.action not in {TaskAction.WAIT, TaskAction.RELEASE} and self.verdict is None

    @property
    def verdict(self) -> RunVerdict | None:
        """The verdict on the run that the spec asks for, if it is decided."""
        verdict = self.spec.verdict
        return verdict if verdict is not None and verdict.run_id == self.spec.run_id else None

    @property
    def reported(self) -> TaskStatus:
        """The status of the run that the spec asks for; an older run's status counts as none at all."""
        return self.status if self.status.run_id == self.spec.run_id else TaskStatus(run_id=self.spec.run_id)


def parse_task(body: Json) -> Task:
    """Read a NodeUpgradeTask object.

    Raises:
        MalformedObjectError: It is not one that this version understands.
    """
    metadata = body["metadata"]
    return Task(
        name=NodeName(metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=from_json(TaskSpec, body.get("spec"), "spec"),
        status=from_json(TaskStatus, body.get("status", {}), "status"),
        baseline=(metadata.get("annotations") or {}).get(BASELINE_ANNOTATION, ""),
    )
