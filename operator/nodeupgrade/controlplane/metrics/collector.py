"""The operator's Prometheus metrics, as the catalogue describes them.

Counters count since the start of this process. Gauges are computed from the current state at every scrape, so the
gauges of a deleted NodeUpgrade vanish. Only the replica that leads has gauges of NodeUpgrades: another may have led
before, and knows only what was true then.
"""

from collections import Counter as Numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import began_at
from nodeupgrade.api.task.spec import RunVerdict, TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.controlplane.metrics import definitions as metric
from nodeupgrade.controlplane.metrics.definitions import MetricSpec
from nodeupgrade.fleet.actions import Judge
from nodeupgrade.fleet.caches.informer import Informer
from nodeupgrade.fleet.controllers.result import Result


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
        # They would double the counters, and Prometheus makes no use of them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._named: set[str] = set()
        self._restarted_on: set[tuple[str, str]] = set()
        self._upgrades: dict[str, Upgrade] = {}
        self._state = state
        self._requests = self._counter(metric.REQUESTS)
        self._passes = self._counter(metric.PASSES)
        self._rewritten = self._counter(metric.REWRITTEN)
        self._restarted = self._counter(metric.RESTARTED)
        self._flapped = self._counter(metric.FLAPS)
        self._rollbacks = self._counter(metric.ROLLBACKS)
        self._down = self._histogram(metric.KUBELET_DOWN)
        self._seconds = self._histogram(metric.PASS_DURATION)
        self._lag = self._histogram(metric.LOOP_LAG)
        build = metric.BUILD
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
            for counter in (self._rewritten, self._flapped, self._down):
                counter.labels(self._name(name))  # at 0, so that the first increase is one
        self.node_reconciled(done, seconds)
        if done.upgrade is None:
            self._forget(name)

    def node_reconciled(self, done: Result, seconds: float) -> None:
        """Count that something was reconciled, and the runs that got a verdict."""
        self._passes.labels("conflict" if done.conflicted else "success").inc()
        self._seconds.observe(seconds)
        for action in done.applied:
            if isinstance(action, Judge) and action.verdict.outcome is not Verdict.PRECHECKED:
                self._judged(action.task, action.verdict)

    def _judged(self, task: Task, verdict: RunVerdict) -> None:
        """Count a run: its verdict is written once."""
        upgrade, status = self._name(task.spec.upgrade_ref.name), task.reported
        self._rewritten.labels(upgrade).inc(status.containers.rewritten)
        if restarted := max(verdict.restarted, status.containers.restarted):
            self._restarted.labels(*self._restarting(upgrade, task.name)).inc(restarted)
        self._flapped.labels(upgrade).inc(len(status.containers.readiness_flaps))
        if status.kubelet.down_seconds is not None:
            self._down.labels(upgrade).observe(status.kubelet.down_seconds)
        if verdict.outcome in {Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED}:
            self._rollbacks.labels(upgrade, verdict.reason.value).inc()

    def _forget(self, upgrade: str) -> None:
        """Drop the counters of a NodeUpgrade that is gone."""
        self._named.discard(upgrade)
        self._restarted_on = {labels for labels in self._restarted_on if labels[0] != upgrade}
        for counter in (self._rewritten, self._restarted, self._flapped, self._rollbacks, self._down):
            counter.remove_by_labels({"upgrade": upgrade})

    def _name(self, upgrade: str) -> str:
        """Return the value of the label ``upgrade``, of which there are only so many."""
        if upgrade not in self._named and len(self._named) >= metric.NAMED_UPGRADES:
            return metric.OTHERS
        self._named.add(upgrade)
        return upgrade

    def _restarting(self, upgrade: str, node: str) -> tuple[str, str]:
        """Return the labels for restarts on a node, of which there are only so many as well."""
        labels = upgrade, node
        if labels not in self._restarted_on and len(self._restarted_on) >= metric.NAMED_RESTARTS:
            return upgrade, metric.OTHERS
        self._restarted_on.add(labels)
        return labels

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
        hashes = _gauge(metric.HASHES)
        for kubelet, number in _stored_hashes(state.tasks if state.leads else ()).items():
            hashes.add_metric((kubelet,), number)
        leads, queue = _gauge(metric.LEADER), _gauge(metric.QUEUE_DEPTH)
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
    nodes, tasks = _gauge(metric.NODES), {task.name: task for task in state.tasks}
    uids = {upgrade.uid for upgrade in upgrades}
    mine = (task for task in tasks.values() if task.spec.upgrade_ref.uid in uids)
    for group, count in Numbers((task.spec.upgrade_ref.name, task.spec.wave, _phase(task)) for task in mine).items():
        nodes.add_metric(group, count)
    flying, lasting, limits = (
        _gauge(metric.IN_FLIGHT),
        _gauge(metric.FLIGHT),
        _gauge(metric.NODE_TIMEOUT),
    )
    total, completed, failed, window = map(_gauge, (metric.TOTAL, metric.COMPLETED, metric.FAILED, metric.NEXT_WINDOW))
    phases, conditions, paused = _gauge(metric.PHASE), _gauge(metric.CONDITION), _gauge(metric.PAUSED)
    for upgrade in upgrades:
        name, status = upgrade.name, upgrade.status
        flying.add_metric((name,), len(status.in_flight))
        total.add_metric((name,), status.counts.total)
        completed.add_metric((name,), status.counts.succeeded)
        failed.add_metric((name,), status.failed)
        if status.next_window is not None:
            window.add_metric((name,), status.next_window.timestamp())
        for node, lasted in islice(_flights(upgrade, tasks, state.now).items(), metric.NAMED_NODES):
            lasting.add_metric((name, node), lasted.total_seconds())
        if upgrade.spec is not None:
            limits.add_metric((name,), upgrade.spec.timeouts.node.total_seconds())
        if status.phase:
            phases.add_metric((name, status.phase), 1)
        for condition in status.conditions:
            conditions.add_metric((name, condition.type, condition.status, condition.reason), 1)
        paused.add_metric((name,), _is_paused(upgrade))
    yield from (nodes, total, completed, failed, flying, lasting, limits, phases, conditions, paused, window)


def _flights(upgrade: Upgrade, tasks: Mapping[NodeName, Task], now: datetime) -> dict[NodeName, timedelta]:
    """Return how long each node in flight has been so, the longest first; one whose run has not begun is left out."""
    flying = (tasks[name] for name in upgrade.status.flying if name in tasks)
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
    return requested or upgrade.paused_by_annotation or stalled


def _phase(task: Task) -> str:
    return task.reported.phase.value if task.verdict is None else task.verdict.outcome.value


def _informers(informers: tuple[Informer[Any], ...]) -> Iterator[Metric]:
    synced, ages = _gauge(metric.SYNCED), _gauge(metric.EVENT_AGE)
    relists = CounterMetricFamily(metric.RELISTS.name, metric.RELISTS.meaning, labels=metric.RELISTS.labels)
    for informer in informers:
        kind = informer.resource.kind
        synced.add_metric((kind,), informer.synced)
        ages.add_metric((kind,), informer.silence)
        for reason, count in dict(informer.relists).items():
            relists.add_metric((kind, reason), count)
    yield from (synced, ages, relists)


@contextmanager
def serve_metrics(metrics: Metrics, host: str, port: int) -> Iterator[int]:
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
