"""NodeUpgrade: one rollout, as a person wrote it and as the control plane reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from nodeupgrade.domain.task import KubeletSettings, VerifySettings
from nodeupgrade.domain.values import NodeName

FINALIZER = "nodeupgrade.dev/finish-in-flight"
PAUSE_ANNOTATION = "nodeupgrade.dev/pause"
"""Emergency brake beside spec.action: it needs no commit to wherever the spec is kept."""


class SkewPolicy(StrEnum):
    """Whether a target outside the API server's supported kubelet versions is refused or only mentioned."""

    ENFORCE = "Enforce"
    WARN = "Warn"


class CordonedPolicy(StrEnum):
    """Whether a node that somebody else cordoned is left alone or upgraded as it is."""

    SKIP = "Skip"
    INCLUDE = "Include"


class RolloutAction(StrEnum):
    """Whether further nodes are started."""

    RUN = "Run"
    PAUSE = "Pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArtifact:
    """A kubelet inside an image: reference pinned by digest, absolute path, optional pull secret."""

    ref: str
    path: str
    pull_secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A kubelet to download."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStagedFile:
    """A kubelet that lies on the node."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Where the kubelet comes from; exactly one is set. Maps are keyed by platform, e.g. ``linux-amd64``."""

    image: ImageArtifact | None = None
    platforms: Mapping[str, Download] | None = None
    pre_staged: Mapping[str, PreStagedFile] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One term of a label selector or of a node selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """A metav1.LabelSelector: everything in it must hold."""

    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """Which nodes are upgraded: those selected, those named, or all."""

    selector: LabelSelector | None = None
    names: tuple[NodeName, ...] = ()
    all: bool = False
    cordoned: CordonedPolicy = CordonedPolicy.SKIP


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Nodes in flight at the same time, and failed nodes after which none is started any more."""

    max_concurrent: int = 1
    failure_threshold: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSpec:
    """What a person asked for, validated."""

    version: str
    artifact: Artifact
    nodes: NodeSelection
    allow_downgrade: bool = False
    skew_policy: SkewPolicy = SkewPolicy.ENFORCE
    strategy: Strategy = field(default_factory=Strategy)
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    node_timeout: timedelta = timedelta(minutes=15)
    action: RolloutAction = RolloutAction.RUN


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Nodes by how they stand; their sum is ``total``."""

    total: int = 0
    pending: int = 0
    in_progress: int = 0
    succeeded: int = 0
    skipped: int = 0
    refused: int = 0
    failed: int = 0
    rolled_back: int = 0
    rollback_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTotals:
    """Containers over all nodes that have been verified."""

    baseline: int = 0
    rewritten: int = 0
    unchanged: int = 0
    restarted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that was refused or failed (message at most 256 characters)."""

    node: str
    reason: str
    step: str | None = None
    message: str = ""
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A metav1.Condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """What the control plane reports; bounded whatever the size of the fleet."""

    observed_generation: int = -1
    phase: str = ""
    progress: str = ""
    failed: int = 0
    counts: Counts = Counts()
    containers: ContainerTotals = ContainerTotals()
    in_flight: tuple[NodeName, ...] = ()
    failures: tuple[NodeFailure, ...] = ()
    skips: Mapping[str, int] | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A NodeUpgrade object.

    Attributes:
        spec: None when it is not valid.
        problem: why it is not valid; empty when it is.
    """

    name: str
    uid: str
    resource_version: str
    generation: int
    spec: UpgradeSpec | None
    problem: str = ""
    status: UpgradeStatus = UpgradeStatus()
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    braked: bool = False

    @property
    def has_finalizer(self) -> bool:
        """Whether deletion waits for us."""
        return FINALIZER in self.finalizers

    @property
    def finished(self) -> bool:
        """Whether the rollout ended; what it reports is then frozen."""
        return self.status.completed_at is not None
