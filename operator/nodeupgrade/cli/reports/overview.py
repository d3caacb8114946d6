"""One rollout summed up for people: its status, its nodes in flight, and when it may end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import StepResult
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType, UpgradeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Flying:
    """A node in flight: its phase, its current step, and for how long it has been in flight."""

    node: str
    wave: str = ""
    phase: str = "Pending"
    step: str = ""
    started_at: datetime | None = None
    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """When the rollout ends if it continues at its rate so far; later waits are not included."""

    completion: datetime
    nodes_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What ``status`` shows of one rollout."""

    upgrade: Upgrade
    flying: tuple[Flying, ...] = ()
    estimate: Estimate | None = None
    # by node, as far as they were read; at least those of its nodes in flight
    tasks: Mapping[str, Task] = field(default_factory=dict)
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # nodes by reason, if they were read

    @property
    def status(self) -> UpgradeStatus:
        """What the control plane reports."""
        return self.upgrade.status

    @property
    def version(self) -> str:
        """The target version, as far as it can be parsed."""
        return "?" if self.upgrade.spec is None else self.upgrade.spec.version

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen: the rollout, or the requested report, is complete."""
        if self.upgrade.generation != self.status.observed_generation or self.status.in_flight:
            return False
        return self.upgrade.finished or self.succeeded or self._hazards_found

    @property
    def _hazards_found(self) -> bool:
        """Whether a plan was requested and found hazards: it is complete, but the answer is no."""
        stalled = self.status.condition(ConditionType.STALLED)
        return stalled.status == "True" and stalled.reason == Reason.HAZARDS_FOUND

    @property
    def succeeded(self) -> bool:
        """Whether the request was fulfilled."""
        return self.status.holds(ConditionType.READY)

    @property
    def stalled(self) -> bool:
        """Whether a person must act."""
        return self.status.holds(ConditionType.STALLED)

    def document(self) -> Json:
        """Return it as JSON."""
        spec = self.upgrade.spec
        status = {key: value for key, value in to_json(self.status).items() if key != "inFlight"}
        return {
            "name": self.upgrade.name,
            "version": self.version,
            "action": None if spec is None else spec.action.value,
            "pausedByAnnotation": self.upgrade.paused_by_annotation,
            "ended": self.ended,
            **status,
            "inFlight": [to_json(each) for each in self.flying],
            "estimate": to_json(self.estimate),
        }


def overview(upgrade: Upgrade, tasks: Mapping[str, Task], now: datetime) -> Overview:
    """Sum up a rollout; ``tasks`` are at least those of its nodes in flight."""
    flying = tuple(_flying(node, tasks.get(node), now) for node in upgrade.status.flying)
    return Overview(upgrade=upgrade, flying=flying, estimate=_estimate(upgrade, now), tasks=tasks)


def _flying(node: str, task: Task | None, now: datetime) -> Flying:
    if task is None:
        return Flying(node=node, phase="Admitted")
    report = task.reported
    current = next((s.name for s in reversed(report.steps) if s.result in {StepResult.DOING, StepResult.UNDOING}), "")
    started = report.started_at
    return Flying(
        node=node,
        wave=task.spec.wave,
        phase=report.phase.value,
        step=current,
        started_at=started,
        seconds=None if started is None else max(0, int((now - started).total_seconds())),
    )


def _estimate(upgrade: Upgrade, now: datetime) -> Estimate | None:
    """Project the rate so far; None before the first node is done, and while the rollout does not progress."""
    status, counts = upgrade.status, upgrade.status.counts
    done, left = counts.succeeded + counts.all_failed, counts.pending + counts.in_progress
    at_work = status.holds(ConditionType.RECONCILING) and not upgrade.paused_by_annotation
    if status.started_at is None or not done or not left or not at_work:
        return None
    elapsed = (now - status.started_at).total_seconds()
    if elapsed <= 0:
        return None
    completion = (now + timedelta(seconds=elapsed * left / done)).replace(microsecond=0)
    return Estimate(completion=completion, nodes_per_hour=round(done * 3600 / elapsed, 1))
