"""The spec of a NodeUpgrade: what people write, once it has been read and found valid."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from nodeupgrade.api.run_settings import HashMode, KubeletSettings, VerifySettings
from nodeupgrade.api.share import Share
from nodeupgrade.api.values import NodeName

SLOTS = 100
"""Nodes in flight at most, whatever is asked for: each has a place in the status, which must stay small."""

ONE = Share(1)


class SkewPolicy(StrEnum):
    """Whether a target outside the API server's supported kubelet versions is refused or only mentioned."""

    ENFORCE = "Enforce"
    WARN = "Warn"


class CordonedPolicy(StrEnum):
    """Whether a node that somebody else cordoned is left alone or upgraded as it is."""

    SKIP = "Skip"
    INCLUDE = "Include"


class NotReadyPolicy(StrEnum):
    """Whether a node that is not Ready is passed over or waited for."""

    SKIP = "Skip"
    BLOCK = "Block"


class Membership(StrEnum):
    """Whether nodes that come to match after the plan was made belong to the rollout."""

    SNAPSHOT = "Snapshot"
    CONTINUOUS = "Continuous"


class RolloutAction(StrEnum):
    """What is wanted of the rollout: a report only, work, no further node, or the end."""

    PLAN = "Plan"
    RUN = "Run"
    PAUSE = "Pause"
    ABORT = "Abort"


class ApprovalPolicy(StrEnum):
    """Whether a wave begins by itself or when somebody approves it."""

    AUTO = "Auto"
    MANUAL = "Manual"


class TopologyMode(StrEnum):
    """Whether one domain is finished before the next, or all are worked on a little."""

    ZONE_BY_ZONE = "ZoneByZone"
    SPREAD = "Spread"


class GrowthType(StrEnum):
    """How the number of nodes in flight grows from one to its limit with each success."""

    FIXED = "Fixed"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"


class ThresholdPolicy(StrEnum):
    """What happens when as many nodes failed as may: wait for a human, or end."""

    PAUSE = "Pause"
    ABORT = "Abort"


class OverlapPolicy(StrEnum):
    """What happens when an older rollout holds the same nodes: wait for it, or ask for a human."""

    QUEUE = "Queue"
    FAIL = "Fail"


class DeletionPolicy(StrEnum):
    """What happens to nodes in flight when the NodeUpgrade is deleted."""

    FINISH_IN_FLIGHT = "FinishInFlight"
    ROLLBACK_IN_FLIGHT = "RollbackInFlight"


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
class NodeExclusion:
    """Nodes that are left out although they are selected."""

    selector: LabelSelector | None = None
    names: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelection:
    """Which nodes are upgraded: those selected, those named, or all; less the excluded ones.

    Attributes:
        control_plane: whether nodes with a control plane's role label belong; those named always do.
    """

    selector: LabelSelector | None = None
    names: tuple[NodeName, ...] = ()
    all: bool = False
    exclude: NodeExclusion = field(default_factory=NodeExclusion)
    control_plane: bool = False
    cordoned: CordonedPolicy = CordonedPolicy.SKIP
    not_ready: NotReadyPolicy = NotReadyPolicy.SKIP
    membership: Membership = Membership.SNAPSHOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """Nodes that are finished before the next wave begins.

    Attributes:
        selector: nodes of the wave by label; a node belongs to the first wave that takes it.
        size: or so many of the nodes that are left; exactly one of both is given.
        max_concurrent: limit of its own, beside the strategy's.
        soak: how long the rollout rests after the wave's last node.
        failure_threshold: failed nodes of this wave at which the rollout stops, beside the strategy's.
    """

    name: str
    selector: LabelSelector | None = None
    size: Share | None = None
    max_concurrent: Share | None = None
    soak: timedelta = timedelta()
    approval: ApprovalPolicy = ApprovalPolicy.AUTO
    failure_threshold: Share | None = None


REMAINDER = "remainder"
"""Name of the wave that takes all nodes which no wave of the spec takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Limits by failure domain, which is the value of a node label; nodes without it form a domain of their own."""

    key: str
    max_per_domain: int = 1
    mode: TopologyMode = TopologyMode.SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Begin each wave, and begin anew after each failure, with one node in flight.

    A round is as many successes in a row as there are slots; after each, slots are added (Linear) or multiplied
    (Exponential) by ``factor`` until ``cap`` or the strategy's limit is reached.
    """

    type: GrowthType = GrowthType.FIXED
    factor: int = 2
    cap: Share | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Budgets.

    Attributes:
        max_concurrent: nodes in flight at the same time; at most ``SLOTS``.
        max_unavailable: nodes of the rollout that may be unavailable at the same time, for whatever reason: in
            flight, cordoned or not Ready. None means a tenth, and at least one more than ``max_concurrent``.
        node_interval: rest after a node's success.
        failure_threshold: failed or rolled-back nodes at which no further node is started.
    """

    max_concurrent: Share = ONE
    max_unavailable: Share | None = None
    topology: Topology | None = None
    growth: Growth = field(default_factory=Growth)
    node_interval: timedelta = timedelta()
    failure_threshold: Share = ONE
    on_threshold: ThresholdPolicy = ThresholdPolicy.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When nodes may be started: from each moment of a five-field cron expression, for so long, in an IANA zone."""

    start: str
    duration: timedelta
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """When no node may be started, whatever the windows say."""

    from_: datetime
    to: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one node, one wave and the whole rollout may take; None is for ever."""

    node: timedelta = timedelta(minutes=15)
    wave: timedelta | None = None
    total: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashSettings:
    """What may be done to stored hashes."""

    mode: HashMode = HashMode.REWRITE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeSpec:
    """What a person asked for, validated."""

    version: str
    artifact: Artifact
    nodes: NodeSelection
    allow_downgrade: bool = False
    from_versions: tuple[str, ...] = ()
    skew_policy: SkewPolicy = SkewPolicy.ENFORCE
    hash: HashSettings = field(default_factory=HashSettings)
    waves: tuple[Wave, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    windows: tuple[Window, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    kubelet: KubeletSettings = field(default_factory=KubeletSettings)
    verify: VerifySettings = field(default_factory=VerifySettings)
    timeouts: Timeouts = field(default_factory=Timeouts)
    overlap_policy: OverlapPolicy = OverlapPolicy.QUEUE
    deletion_policy: DeletionPolicy = DeletionPolicy.FINISH_IN_FLIGHT
    action: RolloutAction = RolloutAction.RUN
    approved_waves: tuple[str, ...] = ()
