"""What a Service's clients notice: lost endpoints, unready pods and nodes, failed requests.

``trafficprobe`` observes, inside the lab's network; ``Tally`` adds up what it saw, and when.
"""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.process import PATIENCE

CHECKOUT = Path(__file__).resolve().parents[3]
READY_SECONDS = 60 * PATIENCE
END_SECONDS = 30 * PATIENCE


@dataclass(frozen=True, kw_only=True)
class TrafficReport:
    """What was noticed, over all Services, pods and nodes of a lab."""

    seconds: float  # how long it was watched
    endpoints: int  # how many addresses were ready when the watch began or later
    endpoints_lost: tuple[str, ...]  # how many of these were not ready for a while, and which pods they belong to
    endpoint_seconds_lost: float  # for how long, added up
    # pods whose condition Ready was not True for a while although they were not being deleted
    pods_unready: tuple[str, ...]
    nodes_not_ready: float  # seconds for which any node's condition Ready was not True
    requests: int  # HTTP requests made, directly to the pods' addresses
    failed: int  # how many of these were not answered with 200
    slowest: float  # seconds of the slowest answer


@dataclass
class Absences:
    """When things were missing that had been present before. Times are seconds of a monotonic clock."""

    seen: set[str] = field(default_factory=set)
    lost: dict[str, float] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)

    def note(self, name: str, present: bool, now: float) -> None:
        """Record whether a thing is present from now on; what was never present is not missed."""
        if present:
            self.seen.add(name)
            self._return(name, now)
        elif name in self.seen:
            self._since.setdefault(name, now)
            self.lost.setdefault(name, 0.0)

    def forget(self, name: str, now: float) -> None:
        """Record that a thing is gone on purpose: from now on it is not missed."""
        self._return(name, now)
        self.seen.discard(name)

    def end(self, now: float) -> None:
        """Count what is missing until now."""
        for name in tuple(self._since):
            self._return(name, now)

    def _return(self, name: str, now: float) -> None:
        if (since := self._since.pop(name, None)) is not None:
            self.lost[name] += now - since


@dataclass
class Tally:
    """Adds up observations."""

    began: float
    endpoints: Absences = field(default_factory=Absences)
    pods: Absences = field(default_factory=Absences)
    nodes: Absences = field(default_factory=Absences)
    requests: int = 0
    failed: int = 0
    slowest: float = 0.0

    def answered(self, seconds: float, ok: bool) -> None:
        """Record the end of one request."""
        self.requests += 1
        self.failed += not ok
        self.slowest = max(self.slowest, seconds)

    def report(self, now: float) -> TrafficReport:
        """Add everything up."""
        for absences in (self.endpoints, self.pods, self.nodes):
            absences.end(now)
        return TrafficReport(
            seconds=round(now - self.began, 3),
            endpoints=len(self.endpoints.seen),
            endpoints_lost=tuple(sorted(self.endpoints.lost)),
            endpoint_seconds_lost=round(sum(self.endpoints.lost.values()), 3),
            pods_unready=tuple(sorted(self.pods.lost)),
            nodes_not_ready=round(sum(self.nodes.lost.values()), 3),
            requests=self.requests,
            failed=self.failed,
            slowest=round(self.slowest, 3),
        )


class Watch:
    """A running watch; ``report`` is set once it has ended."""

    def __init__(self) -> None:
        self.report: TrafficReport | None = None

    @property
    def result(self) -> TrafficReport:
        """The report.

        Raises:
            LabError: the watch has not ended yet.
        """
        if self.report is None:
            raise LabError("the traffic is still being watched; leave its context first")
        return self.report


@contextmanager
def watching(lab: Lab, *, port: int = 8080, rate: float = 2.0) -> Iterator[Watch]:
    """Watch a lab's traffic while the body runs.

    Args:
        lab: The lab.
        port: The HTTP port of the pods that a Service selects.
        rate: Requests per second to each of them.

    Raises:
        LabError: it could not be watched.
    """
    argv = lab.command(sys.executable, "-m", "e2e.lab.workloads.trafficprobe", "--port", str(port), "--rate", str(rate))
    watch = Watch()
    with subprocess.Popen(
        argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as probe:
        try:
            _wait_until_watching(probe)
            yield watch
        finally:
            probe.send_signal(signal.SIGTERM)
            answer, complaint = probe.communicate(timeout=END_SECONDS)
    if probe.returncode:
        raise LabError(f"the traffic could not be watched: {complaint.strip()[-1000:]}")
    watch.report = parse(answer)


def parse(text: str) -> TrafficReport:
    """Parse the last report that the probe has printed."""
    found = json.loads(text.strip().splitlines()[-1])
    lists = {key: tuple(found[key]) for key in ("endpoints_lost", "pods_unready")}
    return TrafficReport(**{**found, **lists})


def render(report: TrafficReport) -> str:
    """Format a report as the probe prints it."""
    return json.dumps(asdict(report))


def _wait_until_watching(probe: subprocess.Popen[str]) -> None:
    """Wait for the line that the probe prints once it has seen everything that exists."""
    timer = threading.Timer(READY_SECONDS, probe.kill)
    timer.start()
    try:
        assert probe.stdout is not None
        if not probe.stdout.readline():
            assert probe.stderr is not None
            raise LabError(f"the traffic could not be watched: {probe.stderr.read().strip()[-1000:]}")
    finally:
        timer.cancel()
