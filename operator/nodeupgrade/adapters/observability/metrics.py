"""The operator's Prometheus metrics, as the catalogue describes them.

Counters count since the start of this process. Gauges are computed from the current state at every scrape, so the
gauges of a deleted NodeUpgrade vanish. No metric has a label for the node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nodeupgrade.adapters.observability import catalogue
from nodeupgrade.adapters.observability.catalogue import MetricSpec
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.domain.rollout.report import conditions
from nodeupgrade.domain.rollout.report.figures import finished_runs, group_nodes, is_paused
from nodeupgrade.engine.rollout.passes import Pass


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerState:
    """State of an informer.

    Attributes:
        silence: seconds since the last event.
        relists: number of lists, by reason.
    """

    kind: str
    synced: bool
    silence: float
    relists: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state that gauges are computed from."""

    tasks: Iterable[Task] = ()
    informers: tuple[InformerState, ...] = ()
    queue_depth: int = 0
    leads: bool = False


class Metrics:
    """The metrics registry: counters are incremented by callers, gauges are computed at every scrape.

    Scrapes are served by a thread of their own, so that an operator whose event loop hangs still answers them.

    Args:
        state: Called at every scrape; must return copies.
    """

    def __init__(self, state: Callable[[], State] = State) -> None:
        self.registry = CollectorRegistry()
        self._upgrades: dict[str, Upgrade] = {}
        self._state = state
        self._requests = self._counter(catalogue.REQUESTS)
        self._passes = self._counter(catalogue.PASSES)
        self._rewritten = self._counter(catalogue.REWRITTEN)
        self._restarted = self._counter(catalogue.RESTARTED)
        self._flapped = self._counter(catalogue.FLAPS)
        self._rollbacks = self._counter(catalogue.ROLLBACKS)
        self._down = self._histogram(catalogue.KUBELET_DOWN)
        self._seconds = self._histogram(catalogue.PASS_DURATION)
        self._lag = self._histogram(catalogue.LOOP_LAG)
        build = catalogue.BUILD
        Info(build.name, build.meaning, registry=self.registry).info({"version": _version()})
        ProcessCollector(registry=self.registry)
        self.registry.register(_Gauges(self))

    def answered(self, verb: str, code: str) -> None:
        """Count an answer of the API server."""
        self._requests.labels(verb, code).inc()

    def passed(self, name: str, done: Pass, seconds: float) -> None:
        """Count a reconcile pass and the runs that it gave a verdict on."""
        self._passes.labels("conflict" if done.conflicted else "success").inc()
        self._seconds.observe(seconds)
        if done.upgrade is None:
            self._upgrades.pop(name, None)
        else:
            self._upgrades[name] = done.upgrade
        for run in finished_runs(done.applied):
            self._rewritten.inc(run.rewritten)
            self._restarted.inc(run.restarted)
            self._flapped.inc(run.flapped)
            if run.down_seconds is not None:
                self._down.observe(run.down_seconds)
            if run.rolled_back is not None:
                self._rollbacks.labels(run.rolled_back.value).inc()

    def failed(self, seconds: float, *, expected: bool = True) -> None:
        """Count a reconcile pass that failed."""
        self._passes.labels("error" if expected else "internal_error").inc()
        self._seconds.observe(seconds)

    def lagged(self, seconds: float) -> None:
        """Record by how many seconds a timer was late."""
        self._lag.observe(seconds)

    def gauges(self) -> Iterator[Metric]:
        """Yield the gauges, computed from the current state."""
        state, upgrades = self._state(), tuple(self._upgrades.values())
        nodes = _gauge(catalogue.NODES)
        for group, count in group_nodes(state.tasks, {upgrade.uid for upgrade in upgrades}).items():
            nodes.add_metric((group.upgrade, group.wave, group.phase), count)
        flying, paused = _gauge(catalogue.IN_FLIGHT), _gauge(catalogue.PAUSED)
        stalled, impeded = _gauge(catalogue.STALLED), _gauge(catalogue.IMPEDED)
        for upgrade in upgrades:
            flying.add_metric((upgrade.name,), len(upgrade.status.in_flight))
            paused.add_metric((upgrade.name,), is_paused(upgrade))
            waits = not upgrade.finished and conditions.holds(upgrade.status, ConditionType.STALLED)
            stalled.add_metric((upgrade.name,), waits)
            impeded.add_metric((upgrade.name,), conditions.holds(upgrade.status, ConditionType.IMPEDED))
        leads, queue = _gauge(catalogue.LEADER), _gauge(catalogue.QUEUE_DEPTH)
        leads.add_metric((), state.leads)
        queue.add_metric((), state.queue_depth)
        yield from (nodes, flying, paused, stalled, impeded, leads, queue)
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


def _informers(informers: tuple[InformerState, ...]) -> Iterator[Metric]:
    synced, ages = _gauge(catalogue.SYNCED), _gauge(catalogue.EVENT_AGE)
    relists = CounterMetricFamily(catalogue.RELISTS.name, catalogue.RELISTS.meaning, labels=catalogue.RELISTS.labels)
    for informer in informers:
        synced.add_metric((informer.kind,), informer.synced)
        ages.add_metric((informer.kind,), informer.silence)
        for reason, count in informer.relists.items():
            relists.add_metric((informer.kind, reason), count)
    yield from (synced, ages, relists)


class _Gauges(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.gauges()

    def describe(self) -> Iterable[Metric]:
        return ()  # so that registering the collector does not call collect()


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
