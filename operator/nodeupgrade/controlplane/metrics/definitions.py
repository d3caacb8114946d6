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
    """One metric."""

    base: str  # its name without the prefix, and without the ending that Prometheus' format adds
    kind: MetricKind
    subject: MetricSubject
    meaning: str  # what it says: its help text, and its row in the documentation
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = field(default=(), kw_only=True)  # upper bounds of a histogram's buckets, in seconds

    @property
    def name(self) -> str:
        """The name as it is registered."""
        return PREFIX + self.base

    @property
    def exposed(self) -> str:
        """The name as people query it."""
        return self.name + {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}.get(self.kind, "")


COUNTER, GAUGE, HISTOGRAM, INFO = MetricKind
ABOUT_NODES, OPERATOR = MetricSubject
NAMED_NODES = 20
NAMED_UPGRADES = 100
"""NodeUpgrades that counters name since the start of the process; those beyond count together, as OTHERS."""
NAMED_RESTARTS = 100
OTHERS = "others"

NODES = MetricSpec(
    "nodes",
    GAUGE,
    ABOUT_NODES,
    "nodes that the NodeUpgrade has claimed; phase is the verdict (Succeeded, RolledBack, …) if there is "
    "one, otherwise the phase that the node reports (Pending, Running, …)",
    ("upgrade", "wave", "phase"),
)
IN_FLIGHT = MetricSpec("inflight", GAUGE, ABOUT_NODES, "nodes that hold a slot", ("upgrade",))
TOTAL = MetricSpec("rollout_nodes", GAUGE, ABOUT_NODES, "nodes of the rollout", ("upgrade",))
COMPLETED = MetricSpec("rollout_nodes_completed", GAUGE, ABOUT_NODES, "nodes that were upgraded", ("upgrade",))
FAILED = MetricSpec("rollout_nodes_failed", GAUGE, ABOUT_NODES, "nodes that failed or were rolled back", ("upgrade",))
NEXT_WINDOW = MetricSpec(
    "next_window_timestamp_seconds",
    GAUGE,
    ABOUT_NODES,
    "when the next maintenance window opens, in seconds since 1970; absent while nodes may be started",
    ("upgrade",),
)
PAUSED = MetricSpec(
    "paused",
    GAUGE,
    ABOUT_NODES,
    "1 if no further node is started because of spec.action: Pause, the pause annotation, or the failure threshold",
    ("upgrade",),
)
PHASE = MetricSpec("phase", GAUGE, ABOUT_NODES, "1 for the phase of the NodeUpgrade", ("upgrade", "phase"))
CONDITION = MetricSpec(
    "condition",
    GAUGE,
    ABOUT_NODES,
    "1 for each condition of the NodeUpgrade, with its status (True, False or Unknown) and its reason",
    ("upgrade", "type", "status", "reason"),
)
FLIGHT = MetricSpec(
    "node_inflight_seconds",
    GAUGE,
    ABOUT_NODES,
    f"time that a node has been in flight, by name for the {NAMED_NODES} nodes of each NodeUpgrade that "
    "have been so longest",
    ("upgrade", "node"),
)
NODE_TIMEOUT = MetricSpec(
    "node_timeout_seconds",
    GAUGE,
    ABOUT_NODES,
    "spec.timeouts.node: time after which the run of a node is aborted",
    ("upgrade",),
)
KUBELET_DOWN = MetricSpec(
    "kubelet_down_seconds",
    HISTOGRAM,
    ABOUT_NODES,
    "time that a run was without a healthy kubelet, for runs that stopped it; a node counts as lost after "
    "40 s up to Kubernetes 1.31, after 50 s from 1.32 on",
    ("upgrade",),
    buckets=(0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 300),
)
REWRITTEN = MetricSpec(
    "containers_rewritten", COUNTER, ABOUT_NODES, "containers whose stored hash was rewritten", ("upgrade",)
)
RESTARTED = MetricSpec(
    "containers_restarted",
    COUNTER,
    ABOUT_NODES,
    f"containers that were restarted, for each node that had any (at most {NAMED_RESTARTS} by name, then {OTHERS}); "
    "investigate anything above 0",
    ("upgrade", "node"),
)
FLAPS = MetricSpec(
    "readiness_flaps",
    COUNTER,
    ABOUT_NODES,
    "pods that were reported unready during a run although their containers kept running, at most 20 of "
    "each run; 0 where nodes are guarded",
    ("upgrade",),
)
HASHES = MetricSpec(
    "containers_by_hash",
    GAUGE,
    ABOUT_NODES,
    "running containers by the minor version that computes their stored hash (unknown: none does), as "
    "each node has counted them in its last plan or run",
    ("kubelet",),
)
ROLLBACKS = MetricSpec(
    "rollbacks",
    COUNTER,
    ABOUT_NODES,
    "runs that were rolled back, or could not be, by the reason of the verdict",
    ("upgrade", "reason"),
)
PASSES = MetricSpec(
    "reconcile",
    COUNTER,
    OPERATOR,
    "NodeUpgrades and nodes in flight that were reconciled: success, conflict (another client wrote "
    "meanwhile; retried at once), error (the API server did not do it; retried later), internal_error (a "
    "defect of the operator; retried later, others go on)",
    ("result",),
)
PASS_DURATION = MetricSpec(
    "reconcile_duration_seconds",
    HISTOGRAM,
    OPERATOR,
    "time that it took to reconcile a NodeUpgrade or a node in flight",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60),
)
LEADER = MetricSpec(
    "leader", GAUGE, OPERATOR, "1 for the replica that leads and therefore writes; 0 for those that stand by"
)
QUEUE_DEPTH = MetricSpec(
    "queue_depth",
    GAUGE,
    OPERATOR,
    "NodeUpgrades and nodes in flight that wait for their turn, including those that are due later",
)
SYNCED = MetricSpec(
    "informer_synced",
    GAUGE,
    OPERATOR,
    "1 once every object of the kind was listed; before that, the operator writes nothing",
    ("kind",),
)
EVENT_AGE = MetricSpec(
    "informer_last_event_age_seconds",
    GAUGE,
    OPERATOR,
    "time since the last event of the kind from the API server; bookmarks come every minute, so more than "
    "3 minutes mean that the API server is not reached",
    ("kind",),
)
RELISTS = MetricSpec(
    "informer_relists",
    COUNTER,
    OPERATOR,
    "complete lists: start, periodic (every 15 minutes), expired (410), error, behind (another client "
    "wrote the NodeUpgrade, and the watch had not caught up after a second)",
    ("kind", "reason"),
)
REQUESTS = MetricSpec(
    "api_requests",
    COUNTER,
    OPERATOR,
    "responses of the API server by HTTP verb (WATCH for a watch) and status; none for no response; "
    "responses to kopf, which watches NodeUpgrades, are not counted",
    ("verb", "code"),
)
LOOP_LAG = MetricSpec(
    "event_loop_lag_seconds",
    HISTOGRAM,
    OPERATOR,
    "lateness of a half-second timer; the same event loop answers the liveness probe",
    buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 30),
)
BUILD = MetricSpec("build", INFO, OPERATOR, "1; the version of the operator", ("version",))


METRICS = (
    NODES, TOTAL, COMPLETED, FAILED, IN_FLIGHT, FLIGHT, NODE_TIMEOUT, PHASE, CONDITION, PAUSED, NEXT_WINDOW,
    KUBELET_DOWN, REWRITTEN, RESTARTED, FLAPS, HASHES, ROLLBACKS, PASSES, PASS_DURATION, LEADER, QUEUE_DEPTH, SYNCED,
    EVENT_AGE, RELISTS, REQUESTS, LOOP_LAG, BUILD,
)  # fmt: skip
"""All of them, in the order of the documentation."""
