"""NodeUpgradeTask: one node's share of a rollout, the object in which control plane and node side meet.

The control plane writes the spec, the node side writes the status, and nobody sends anybody a message.
A status counts only for the run it names, so what an earlier attempt left behind cannot be mistaken for news.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import HashMode, KubeletSettings, VerifySettings
from nodeupgrade.api.task_status import TaskStatus
from nodeupgrade.api.values import NodeName, RunId

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


class ArtifactKind(StrEnum):
    """Where the kubelet binary comes from."""

    IMAGE = "Image"
    URL = "URL"
    PRE_STAGED = "PreStaged"


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
class GuardGrant:
    """What the control plane says of the readiness guard.

    Attributes:
        wanted: the node side is to ask for the guard before it stops the kubelet; when it is only to look, that it
            would be.
        answers: the request (``GuardReport.ask``) that is answered; empty until one is.
        kubelet_runs_by: the moment, written into the guard's parameters, by which the new kubelet runs; each pod is
            guarded from then on for as long as its own probes need. ``None`` in an answer: it cannot be guarded.
    """

    wanted: bool = False
    answers: str = ""
    kubelet_runs_by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What the control plane wants of one node, and what it found in the end. Times are UTC.

    Attributes:
        wave: name of the wave the node belongs to.
        order: place of the node in the rollout, counted from 0.
        retry: token of the retry that reopened the task.
        resumes: whether an earlier task was lost while its run may have been going on.
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
    resumes: bool = False
    allow_downgrade: bool = False
    hash_mode: HashMode = HashMode.REWRITE
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    deadline: datetime | None = None
    guard: GuardGrant = GuardGrant()
    cordon: CordonRecord = CordonRecord()
    verdict: RunVerdict | None = None
    history: tuple[PastRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A NodeUpgradeTask with the marks of the object that carries it.

    Attributes:
        baseline: the node's containers before the run, as ``domain.rollout.inflight.baseline`` writes them; kept in
            an annotation while the node is in flight, so that it outlives the operator.
    """

    name: NodeName
    uid: str
    resource_version: str
    generation: int
    spec: TaskSpec
    status: TaskStatus = field(default_factory=TaskStatus)
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
