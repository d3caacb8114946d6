"""Every metric of the operator, once: what Prometheus is told and docs/generated/metrics.md follow from here."""

from dataclasses import dataclass, field
from enum import StrEnum

PREFIX = "nodeupgrade_"


class MetricKind(StrEnum):
    """Kinds of metrics, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class MetricSubject(StrEnum):
    """What a metric is about: a heading of docs/generated/metrics.md."""

    NODES = "What happens to nodes"
    OPERATOR = "How the operator is doing"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric.

    Attributes:
        base: its name without the prefix, and without the ending that Prometheus' format adds.
        meaning: what it says: its help text, and its row in the documentation.
        buckets: upper bounds of a histogram's buckets, in seconds.
    """

    base: str
    kind: MetricKind
    subject: MetricSubject
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = field(default=(), kw_only=True)

    @property
    def name(self) -> str:
        """The name as it is registered."""
        return PREFIX + self.base

    @property
    def exposed(self) -> str:
        """The name as people query it."""
        return self.name + {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}.get(self.kind, "")


NODES = MetricSpec(
    "nodes",
    MetricKind.GAUGE,
    MetricSubject.NODES,
    "nodes that the NodeUpgrade has claimed; phase is the verdict (Succeeded, RolledBack, …) if there is one, "
    "otherwise the phase that the node reports (Pending, Running, …)",
    ("upgrade", "wave", "phase"),
)
IN_FLIGHT = MetricSpec("inflight", MetricKind.GAUGE, MetricSubject.NODES, "nodes that hold a slot", ("upgrade",))
PAUSED = MetricSpec(
    "paused",
    MetricKind.GAUGE,
    MetricSubject.NODES,
    "1 if no further node is started because of spec.action: Pause, the pause annotation, or the failure threshold",
    ("upgrade",),
)
STALLED = MetricSpec(
    "stalled",
    MetricKind.GAUGE,
    MetricSubject.NODES,
    "1 if a rollout that is not over needs a person: its condition Stalled is True",
    ("upgrade",),
)
IMPEDED = MetricSpec(
    "impeded",
    MetricKind.GAUGE,
    MetricSubject.NODES,
    "1 if a node makes no progress: the condition Impeded is True",
    ("upgrade",),
)
KUBELET_DOWN = MetricSpec(
    "kubelet_down_seconds",
    MetricKind.HISTOGRAM,
    MetricSubject.NODES,
    "time that a run was without a healthy kubelet, for runs that stopped it; a node counts as lost after 40 s up to "
    "Kubernetes 1.31, after 50 s from 1.32 on",
    buckets=(0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 300),
)
REWRITTEN = MetricSpec(
    "containers_rewritten", MetricKind.COUNTER, MetricSubject.NODES, "containers whose stored hash was rewritten"
)
RESTARTED = MetricSpec(
    "containers_restarted",
    MetricKind.COUNTER,
    MetricSubject.NODES,
    "containers that were restarted; investigate anything above 0",
)
FLAPS = MetricSpec(
    "readiness_flaps",
    MetricKind.COUNTER,
    MetricSubject.NODES,
    "pods that were reported unready during a run although their containers kept running, at most 20 of each run; 0 "
    "where nodes are guarded",
)
ROLLBACKS = MetricSpec(
    "rollbacks",
    MetricKind.COUNTER,
    MetricSubject.NODES,
    "runs that were rolled back, or could not be, by the reason of the verdict",
    ("reason",),
)
PASSES = MetricSpec(
    "reconcile",
    MetricKind.COUNTER,
    MetricSubject.OPERATOR,
    "passes over a NodeUpgrade: success, conflict (another client wrote meanwhile; retried at once), error (the API "
    "server did not do it; retried later), internal_error (a defect of the operator; retried later, others go on)",
    ("result",),
)
PASS_DURATION = MetricSpec(
    "reconcile_duration_seconds",
    MetricKind.HISTOGRAM,
    MetricSubject.OPERATOR,
    "duration of a pass",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60),
)
LEADER = MetricSpec(
    "leader",
    MetricKind.GAUGE,
    MetricSubject.OPERATOR,
    "1 for the replica that leads and therefore writes; 0 for those that stand by",
)
QUEUE_DEPTH = MetricSpec(
    "queue_depth",
    MetricKind.GAUGE,
    MetricSubject.OPERATOR,
    "NodeUpgrades that wait for a pass, including those that are due later",
)
SYNCED = MetricSpec(
    "informer_synced",
    MetricKind.GAUGE,
    MetricSubject.OPERATOR,
    "1 once every object of the kind was listed; before that, the operator writes nothing",
    ("kind",),
)
EVENT_AGE = MetricSpec(
    "informer_last_event_age_seconds",
    MetricKind.GAUGE,
    MetricSubject.OPERATOR,
    "time since the last event of the kind from the API server; bookmarks come every minute, so more than 3 minutes "
    "mean that the API server is not reached",
    ("kind",),
)
RELISTS = MetricSpec(
    "informer_relists",
    MetricKind.COUNTER,
    MetricSubject.OPERATOR,
    "complete lists: start, periodic (every 15 minutes), expired (410), error, behind (another client wrote the "
    "NodeUpgrade, and the watch had not caught up after a second)",
    ("kind", "reason"),
)
REQUESTS = MetricSpec(
    "api_requests",
    MetricKind.COUNTER,
    MetricSubject.OPERATOR,
    "responses of the API server by HTTP verb (WATCH for a watch) and status; none for no response; responses to kopf, "
    "which watches NodeUpgrades, are not counted",
    ("verb", "code"),
)
LOOP_LAG = MetricSpec(
    "event_loop_lag_seconds",
    MetricKind.HISTOGRAM,
    MetricSubject.OPERATOR,
    "lateness of a half-second timer; the same event loop answers the liveness probe",
    buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 30),
)
BUILD = MetricSpec("build", MetricKind.INFO, MetricSubject.OPERATOR, "1; the version of the operator", ("version",))

METRICS = (
    NODES, IN_FLIGHT, PAUSED, STALLED, IMPEDED, KUBELET_DOWN, REWRITTEN, RESTARTED, FLAPS, ROLLBACKS,
    PASSES, PASS_DURATION, LEADER, QUEUE_DEPTH, SYNCED, EVENT_AGE, RELISTS, REQUESTS, LOOP_LAG, BUILD,
)  # fmt: skip
"""All of them, in the order of the documentation."""
