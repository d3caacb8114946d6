"""One rollout summed up for people: its status, its nodes in flight, and when it may end."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction, Verdict
from nodeupgrade.api.task.status import StepResult, StepStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName


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
            "pausedByAnnotation": self.upgrade.braked,
            "ended": self.ended,
            **status,
            "inFlight": [to_json(each) for each in self.flying],
            "estimate": to_json(self.estimate),
        }


def overview(upgrade: Upgrade, tasks: Mapping[str, Task], now: datetime) -> Overview:
    """Sum up a rollout; ``tasks`` are at least those of its nodes in flight."""
    flying = tuple(_flying(node, tasks.get(node), now) for node in upgrade.status.in_flight)
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
    at_work = status.holds(ConditionType.RECONCILING) and not upgrade.braked
    if status.started_at is None or not done or not left or not at_work:
        return None
    elapsed = (now - status.started_at).total_seconds()
    if elapsed <= 0:
        return None
    completion = (now + timedelta(seconds=elapsed * left / done)).replace(microsecond=0)
    return Estimate(completion=completion, nodes_per_hour=round(done * 3600 / elapsed, 1))


# A rollout as a tree: its waves, their nodes as far as they matter now, and the steps of nodes in flight.

_AT_WORK = frozenset({StepResult.DOING, StepResult.UNDOING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line of the tree."""

    name: str
    state: str  # phase, state or result, in the API's own word
    took: timedelta | None = None  # how long it has taken, or takes so far; None if it has not begun
    wave: WaveStatus | None = None  # numbers to draw a bar from; None for nodes and steps
    about: str = ""  # what else there is to say, in words
    branches: tuple["Branch", ...] = ()


def tree(seen: Overview, now: datetime, *, whole: bool = False) -> tuple[Branch, ...]:
    """Return the waves with their nodes in flight and their latest failures; ``whole`` adds all nodes and steps."""
    failed = (failure.node for failure in seen.status.failures)
    names = dict.fromkeys((*seen.status.in_flight, *failed, *(sorted(seen.tasks) if whole else ())))
    by_wave: dict[str, list[Branch]] = {}
    for name in names:
        task = seen.tasks.get(name)
        wave = REMAINDER if task is None else task.spec.wave or REMAINDER
        flying = name in seen.status.in_flight
        by_wave.setdefault(wave, []).append(_node(name, task, now, flying=flying, whole=whole))
    known = {wave.name for wave in seen.status.waves}
    others = (WaveStatus(name=name) for name in by_wave if name not in known)
    return tuple(_wave(each, tuple(by_wave.get(each.name, ())), now) for each in (*seen.status.waves, *others))


def _wave(wave: WaveStatus, nodes: tuple[Branch, ...], now: datetime) -> Branch:
    numbers = ((wave.failed, "failed"), (wave.refused, "refused"), (wave.skipped, "skipped"))
    about = [f"{number} {word}" for number, word in numbers if number]
    if wave.approved_by:
        about.append(f"approved by {wave.approved_by}")
    took = _took(wave.started_at, wave.completed_at or now)
    return Branch(name=wave.name, state=wave.state.value, took=took, wave=wave, about=", ".join(about), branches=nodes)


def _node(name: str, task: Task | None, now: datetime, *, flying: bool, whole: bool) -> Branch:
    if task is None:
        return Branch(name=name, state="Admitted" if flying else "Refused")
    report, verdict = task.reported, task.verdict
    waiting = task.spec.action is TaskAction.WAIT and not flying
    state = verdict.outcome.value if verdict is not None else "Waiting" if waiting else report.phase.value
    steps = tuple(_steps(report.steps, now, whole=whole)) if flying or whole else ()
    took = _took(report.started_at, report.finished_at or now)
    return Branch(name=name, state=state, took=took, branches=steps)


def _steps(steps: Iterable[StepStatus], now: datetime, *, whole: bool) -> Iterator[Branch]:
    listed = tuple(steps)
    current = [step for step in listed if step.result in _AT_WORK] or list(listed)
    for step in listed if whole else current[-1:]:
        took = _took(step.started_at, step.finished_at or (now if step.result in _AT_WORK else None))
        place = f"step {list(Step).index(Step(step.name)) + 1} of {len(Step)}" if step.name in set(Step) else ""
        yield Branch(name=step.name, state=step.result.value, took=took, about=step.detail or place)


def _took(began: datetime | None, until: datetime | None) -> timedelta | None:
    return None if began is None or until is None else until - began


# Nodes that failed, were rolled back or refused: those in tasks, and those that only the status has.

_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that failed, was rolled back or refused."""

    node: str
    reason: str  # the reason in its task, or in the status of the NodeUpgrade
    result: str = ""  # how its run ended; empty if it never began
    wave: str = ""
    step: str = ""
    message: str = ""
    time: datetime | None = None
    restarted: tuple[str, ...] = ()  # at most 20 of its containers that restarted or changed

    @property
    def explanation(self) -> Reason | None:
        """What the reason means and what to do; None for a reason of a newer version."""
        return known_reason(self.reason)

    def document(self) -> Json:
        """Return it as JSON."""
        known = self.explanation
        return {**to_json(self), "meaning": known and known.meaning, "remedy": known and known.remedy}


def failures(upgrade: Upgrade, tasks: Iterable[Task]) -> tuple[Failure, ...]:
    """List all failures: those in tasks, and those that only the status has."""
    ours = [task for task in tasks if task.spec.upgrade_ref.uid == upgrade.uid]
    found = {task.name: failure for task in ours if (failure := _of_task(task)) is not None}
    for listed in upgrade.status.failures:
        step = listed.step or ""
        entry = Failure(node=listed.node, reason=listed.reason, step=step, message=listed.message, time=listed.time)
        by_task = found.setdefault(NodeName(listed.node), entry)
        if not by_task.step:
            found[NodeName(listed.node)] = replace(by_task, step=step)
    return tuple(sorted(found.values(), key=lambda failure: (failure.reason, failure.node)))


def _of_task(task: Task) -> Failure | None:
    verdict = task.verdict
    if verdict is None or verdict.outcome in _GOOD:
        return None
    return Failure(
        node=task.name,
        reason=verdict.reason.value,
        result=verdict.outcome.value,
        wave=task.spec.wave,
        step=task.reported.failed_step,
        message=verdict.message,
        time=verdict.decided_at,
        restarted=verdict.restarted_list,
    )
