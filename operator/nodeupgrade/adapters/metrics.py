"""Every metric of the operator, once: what Prometheus is told and docs/generated/metrics.md follow from here."""

from collections import Counter as Numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, TaskAction, Verdict, began_at
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import Judge
from nodeupgrade.engine.informer import Informer
from nodeupgrade.engine.rollout.result import Result

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


# fmt: off

COUNTER, GAUGE, HISTOGRAM, INFO = MetricKind
ABOUT_NODES, OPERATOR = MetricSubject
NAMED_NODES = 20

NODES = MetricSpec("nodes", GAUGE, ABOUT_NODES,
    "nodes that the NodeUpgrade has claimed; phase is the verdict (Succeeded, RolledBack, …) if there is "
    "one, otherwise the phase that the node reports (Pending, Running, …)", ("upgrade", "wave", "phase"))
IN_FLIGHT = MetricSpec("inflight", GAUGE, ABOUT_NODES, "nodes that hold a slot", ("upgrade",))
PAUSED = MetricSpec("paused", GAUGE, ABOUT_NODES,
    "1 if no further node is started because of spec.action: Pause, the pause annotation, or the failure "
    "threshold", ("upgrade",))
PHASE = MetricSpec("phase", GAUGE, ABOUT_NODES, "1 for the phase of the NodeUpgrade", ("upgrade", "phase"))
CONDITION = MetricSpec("condition", GAUGE, ABOUT_NODES,
    "1 for each condition of the NodeUpgrade, with its status (True, False or Unknown) and its reason",
    ("upgrade", "type", "status", "reason"))
FLIGHT = MetricSpec("node_inflight_seconds", GAUGE, ABOUT_NODES,
    f"time that a node has been in flight, by name for the {NAMED_NODES} nodes of each NodeUpgrade that "
    "have been so longest", ("upgrade", "node"))
NODE_TIMEOUT = MetricSpec("node_timeout_seconds", GAUGE, ABOUT_NODES,
    "spec.timeouts.node: time after which the run of a node is aborted", ("upgrade",))
KUBELET_DOWN = MetricSpec("kubelet_down_seconds", HISTOGRAM, ABOUT_NODES,
    "time that a run was without a healthy kubelet, for runs that stopped it; a node counts as lost after "
    "40 s up to Kubernetes 1.31, after 50 s from 1.32 on", buckets=(0.5, 1, 2, 5, 10, 20, 30, 40, 50, 60, 300))
REWRITTEN = MetricSpec("containers_rewritten", COUNTER, ABOUT_NODES, "containers whose stored hash was rewritten")
RESTARTED = MetricSpec("containers_restarted", COUNTER, ABOUT_NODES,
    "containers that were restarted; investigate anything above 0")
FLAPS = MetricSpec("readiness_flaps", COUNTER, ABOUT_NODES,
    "pods that were reported unready during a run although their containers kept running, at most 20 of "
    "each run; 0 where nodes are guarded")
HASHES = MetricSpec("containers_by_hash", GAUGE, ABOUT_NODES,
    "running containers by the minor version that computes their stored hash (unknown: none does), as "
    "each node has counted them in its last plan or run", ("kubelet",))
ROLLBACKS = MetricSpec("rollbacks", COUNTER, ABOUT_NODES,
    "runs that were rolled back, or could not be, by the reason of the verdict", ("reason",))
PASSES = MetricSpec("reconcile", COUNTER, OPERATOR,
    "NodeUpgrades and nodes in flight that were reconciled: success, conflict (another client wrote "
    "meanwhile; retried at once), error (the API server did not do it; retried later), internal_error (a "
    "defect of the operator; retried later, others go on)", ("result",))
PASS_DURATION = MetricSpec("reconcile_duration_seconds", HISTOGRAM, OPERATOR,
    "time that it took to reconcile a NodeUpgrade or a node in flight",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60))
LEADER = MetricSpec("leader", GAUGE, OPERATOR,
    "1 for the replica that leads and therefore writes; 0 for those that stand by")
QUEUE_DEPTH = MetricSpec("queue_depth", GAUGE, OPERATOR,
    "NodeUpgrades and nodes in flight that wait for their turn, including those that are due later")
SYNCED = MetricSpec("informer_synced", GAUGE, OPERATOR,
    "1 once every object of the kind was listed; before that, the operator writes nothing", ("kind",))
EVENT_AGE = MetricSpec("informer_last_event_age_seconds", GAUGE, OPERATOR,
    "time since the last event of the kind from the API server; bookmarks come every minute, so more than "
    "3 minutes mean that the API server is not reached", ("kind",))
RELISTS = MetricSpec("informer_relists", COUNTER, OPERATOR,
    "complete lists: start, periodic (every 15 minutes), expired (410), error, behind (another client "
    "wrote the NodeUpgrade, and the watch had not caught up after a second)", ("kind", "reason"))
REQUESTS = MetricSpec("api_requests", COUNTER, OPERATOR,
    "responses of the API server by HTTP verb (WATCH for a watch) and status; none for no response; "
    "responses to kopf, which watches NodeUpgrades, are not counted", ("verb", "code"))
LOOP_LAG = MetricSpec("event_loop_lag_seconds", HISTOGRAM, OPERATOR,
    "lateness of a half-second timer; the same event loop answers the liveness probe",
    buckets=(0.001, 0.01, 0.1, 0.5, 1, 5, 30))
BUILD = MetricSpec("build", INFO, OPERATOR, "1; the version of the operator", ("version",))

# fmt: on

METRICS = (
    NODES, IN_FLIGHT, FLIGHT, NODE_TIMEOUT, PHASE, CONDITION, PAUSED, KUBELET_DOWN, REWRITTEN, RESTARTED, FLAPS,
    HASHES, ROLLBACKS, PASSES, PASS_DURATION, LEADER, QUEUE_DEPTH, SYNCED, EVENT_AGE, RELISTS, REQUESTS, LOOP_LAG,
    BUILD,
)  # fmt: skip
"""All of them, in the order of the documentation."""


# The operator's Prometheus metrics, as the catalogue describes them.
#
# Counters count since the start of this process. Gauges are computed from the current state at every scrape, so the
# gauges of a deleted NodeUpgrade vanish. Only the replica that leads has gauges of NodeUpgrades: another may have led
# before, and knows only what was true then.


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state that gauges are computed from."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    tasks: Iterable[Task] = ()
    informers: tuple[Informer[Any], ...] = ()
    queue_depth: int = 0
    leads: bool = False


class Metrics(Collector):
    """The metrics registry: counters are incremented by callers, gauges are computed at every scrape.

    Scrapes are served by a thread of their own, so that an operator whose event loop hangs still answers them.

    Args:
        state: Called at every scrape, by the server's thread and not the event loop's; must return copies.
    """

    def __init__(self, state: Callable[[], State] = State) -> None:
        self.registry = CollectorRegistry()
        self._upgrades: dict[str, Upgrade] = {}
        self._state = state
        self._requests = self._counter(REQUESTS)
        self._passes = self._counter(PASSES)
        self._rewritten = self._counter(REWRITTEN)
        self._restarted = self._counter(RESTARTED)
        self._flapped = self._counter(FLAPS)
        self._rollbacks = self._counter(ROLLBACKS)
        self._down = self._histogram(KUBELET_DOWN)
        self._seconds = self._histogram(PASS_DURATION)
        self._lag = self._histogram(LOOP_LAG)
        build = BUILD
        Info(build.name, build.meaning, registry=self.registry).info({"version": _version()})
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def answered(self, verb: str, code: str) -> None:
        """Count an answer of the API server."""
        self._requests.labels(verb, code).inc()

    def rollout_reconciled(self, name: str, done: Result, seconds: float) -> None:
        """Count that a NodeUpgrade was reconciled, and learn how it stands."""
        self._upgrades.pop(name, None)
        if done.upgrade is not None:
            self._upgrades[name] = done.upgrade
        self.node_reconciled(done, seconds)

    def node_reconciled(self, done: Result, seconds: float) -> None:
        """Count that something was reconciled, and the runs that got a verdict."""
        self._passes.labels("conflict" if done.conflicted else "success").inc()
        self._seconds.observe(seconds)
        for action in done.applied:
            if isinstance(action, Judge) and action.verdict.outcome is not Verdict.PRECHECKED:
                self._judged(action.task.reported, action.verdict)

    def _judged(self, status: TaskStatus, verdict: RunVerdict) -> None:
        """Count a run: its verdict is written once."""
        self._rewritten.inc(status.containers.rewritten)
        self._restarted.inc(max(verdict.restarted, status.containers.restarted))
        self._flapped.inc(len(status.containers.readiness_flaps))
        if status.kubelet.down_seconds is not None:
            self._down.observe(status.kubelet.down_seconds)
        if verdict.outcome in {Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED}:
            self._rollbacks.labels(verdict.reason.value).inc()

    def failed(self, seconds: float, *, expected: bool = True) -> None:
        """Count what could not be reconciled."""
        self._passes.labels("error" if expected else "internal_error").inc()
        self._seconds.observe(seconds)

    def lagged(self, seconds: float) -> None:
        """Record by how many seconds a timer was late."""
        self._lag.observe(seconds)

    def describe(self) -> Iterable[Metric]:
        return ()  # so that registering does not call collect()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, computed from the current state."""
        state = self._state()
        yield from _rollouts(tuple(self._upgrades.values()) if state.leads else (), state)
        hashes = _gauge(HASHES)
        for kubelet, number in _stored_hashes(state.tasks if state.leads else ()).items():
            hashes.add_metric((kubelet,), number)
        leads, queue = _gauge(LEADER), _gauge(QUEUE_DEPTH)
        leads.add_metric((), state.leads)
        queue.add_metric((), state.queue_depth)
        yield from (hashes, leads, queue)
        yield from _informers(state.informers)

    def _counter(self, spec: MetricSpec) -> Counter:
        return Counter(spec.name, spec.meaning, spec.labels, registry=self.registry)

    def _histogram(self, spec: MetricSpec) -> Histogram:
        return Histogram(spec.name, spec.meaning, spec.labels, registry=self.registry, buckets=spec.buckets)


def _gauge(spec: MetricSpec) -> GaugeMetricFamily:
    return GaugeMetricFamily(spec.name, spec.meaning, labels=spec.labels)


def _version() -> str:
    try:
        return version("nodeupgrade")
    except PackageNotFoundError:
        return "unknown"  # run from a checkout


def _rollouts(upgrades: tuple[Upgrade, ...], state: State) -> Iterator[Metric]:
    nodes, tasks = _gauge(NODES), {task.name: task for task in state.tasks}
    uids = {upgrade.uid for upgrade in upgrades}
    mine = (task for task in tasks.values() if task.spec.upgrade_ref.uid in uids)
    for group, count in Numbers((task.spec.upgrade_ref.name, task.spec.wave, _phase(task)) for task in mine).items():
        nodes.add_metric(group, count)
    flying, lasting, limits = _gauge(IN_FLIGHT), _gauge(FLIGHT), _gauge(NODE_TIMEOUT)
    phases, conditions, paused = _gauge(PHASE), _gauge(CONDITION), _gauge(PAUSED)
    for upgrade in upgrades:
        name, status = upgrade.name, upgrade.status
        flying.add_metric((name,), len(status.in_flight))
        for node, lasted in islice(_flights(upgrade, tasks, state.now).items(), NAMED_NODES):
            lasting.add_metric((name, node), lasted.total_seconds())
        if upgrade.spec is not None:
            limits.add_metric((name,), upgrade.spec.timeouts.node.total_seconds())
        if status.phase:
            phases.add_metric((name, status.phase), 1)
        for condition in status.conditions:
            conditions.add_metric((name, condition.type, condition.status, condition.reason), 1)
        paused.add_metric((name,), _is_paused(upgrade))
    yield from (nodes, flying, lasting, limits, phases, conditions, paused)


def _flights(upgrade: Upgrade, tasks: Mapping[NodeName, Task], now: datetime) -> dict[NodeName, timedelta]:
    """Return how long each node in flight has been so, the longest first; one whose run has not begun is left out."""
    flying = (tasks[name] for name in upgrade.status.in_flight if name in tasks)
    since = {
        task.name: began_at(task.spec.run_id)
        for task in flying
        if task.spec.upgrade_ref.uid == upgrade.uid and task.spec.action is not TaskAction.WAIT
    }
    lasting = ((name, now - began) for name, began in since.items() if began is not None)
    return dict(sorted(lasting, key=lambda flight: flight[1], reverse=True))


def _stored_hashes(tasks: Iterable[Task]) -> Mapping[str, int]:
    """Add up the running containers by the kubelet that computes their hash, as each node has counted them last.

    An earlier run's count is as true as its time is recent, so it counts until there is another one.
    """
    return sum((task.status.hashes.counted for task in tasks if task.status.hashes is not None), Numbers[str]())


def _is_paused(upgrade: Upgrade) -> bool:
    """Report whether the rollout is paused: by its action, by annotation, or by the failure threshold."""
    requested = upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE
    stalled = any(
        condition.status == "True" and condition.reason == Reason.FAILURE_THRESHOLD_REACHED
        for condition in upgrade.status.conditions
    )
    return requested or upgrade.braked or stalled


def _phase(task: Task) -> str:
    return task.reported.phase.value if task.verdict is None else task.verdict.outcome.value


def _informers(informers: tuple[Informer[Any], ...]) -> Iterator[Metric]:
    synced, ages = _gauge(SYNCED), _gauge(EVENT_AGE)
    relists = CounterMetricFamily(RELISTS.name, RELISTS.meaning, labels=RELISTS.labels)
    for informer in informers:
        kind = informer.resource.kind
        synced.add_metric((kind,), informer.synced)
        ages.add_metric((kind,), informer.silence)
        for reason, count in dict(informer.relists).items():
            relists.add_metric((kind, reason), count)
    yield from (synced, ages, relists)


@contextmanager
def served(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve ``/metrics`` while the context lasts, and yield the port; port 0 lets the system choose one.

    Raises:
        OSError: The port is taken.
    """
    server, thread = start_http_server(port, host, registry=metrics.registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
