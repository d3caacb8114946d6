"""One rollout summed up for people: its status, its nodes in flight, and when it may end."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import NOTHING_TO_DO, Reason, Severity, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction, Verdict
from nodeupgrade.api.task.status import PodOwner, ReportedHazard, StepResult, StepStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.ranking import ranked
from nodeupgrade.domain.rollout.node_state import NodeState, Place


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


# What people must do before nodes can be upgraded: everything found on them, by check, what forbids most first.

OWNERS_NAMED = 5

_ORDER = tuple(severity.value for severity in Severity)
_WARN = Severity.WARN.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """One thing to do, on one or more nodes."""

    severity: str
    reason: str
    check: str = ""  # name of the check that asks for it; empty if no check does
    accepted: bool = False  # whether it would forbid the upgrade, had the NodeUpgrade not accepted the check
    remedy: str  # what to do
    example: str  # what was seen on the first node
    nodes: tuple[str, ...]
    pods: int = 0  # how many pods it is about; 0 if it is about the nodes
    owners: tuple[PodOwner, ...] = ()  # whose pods these are, most pods first; the first few

    @property
    def kind(self) -> tuple[int, str, str, str, bool]:
        """What it has in common with others that are done with it."""
        return (_ORDER.index(self.severity), self.reason, self.check, self.remedy, self.accepted)


def todo(
    members: Iterable[NodeState],
    findings: Mapping[str, tuple[Finding, ...]],
    hazards: Mapping[str, tuple[ReportedHazard, ...]],
) -> tuple[Todo, ...]:
    """Sum up what is to be done: refusals, then skips, then warnings, those accepted first.

    Findings are those of checks that know the API alone; hazards are what nodes themselves have reported.
    """
    found = [
        each
        for member in members
        for each in _found(member, findings.get(member.node, ()), hazards.get(member.node, ()))
    ]
    found.sort(key=lambda each: each.kind)
    made = [_together(list(group)) for _, group in groupby(found, key=lambda each: each.kind)]
    made.sort(key=lambda each: (_ORDER.index(each.severity), not each.accepted, -len(each.nodes)))
    return tuple(made)


def _found(member: NodeState, findings: tuple[Finding, ...], hazards: tuple[ReportedHazard, ...]) -> Iterator[Todo]:
    """Yield what speaks against a member's upgrade in its present place, and all warnings."""
    told = [_reported(member.node, hazard) for hazard in hazards]
    seen = {each.check for each in told}
    judged = [each for each in _judged(member.node, findings) if each.check not in seen]
    against = [each for each in (told if _refused_by_itself(member) else judged) if each.severity != _WARN]
    if member.place in {Place.REFUSED, Place.HELD, Place.SKIPPED}:
        yield from against or (_of_state(member),)
    yield from (each for each in (*told, *judged) if each.severity == _WARN)


def _refused_by_itself(member: NodeState) -> bool:
    verdict = None if member.task is None else member.task.verdict
    return verdict is not None and verdict.outcome is Verdict.REFUSED and member.reason == verdict.reason


def _judged(node: str, findings: Iterable[Finding]) -> Iterator[Todo]:
    for group in ranked(findings):
        first = group.first
        yield Todo(
            nodes=(node,),
            severity=first.weight.value,
            reason=first.reason,
            check=first.check,
            accepted=first.accepted,
            remedy=first.reason.remedy if first.remedy is None else first.remedy,
            example=first.detail,
            pods=len(group.pods),
            owners=tuple(PodOwner(name=owner, pods=number) for owner, number in group.owners),
        )


def _reported(node: str, hazard: ReportedHazard) -> Todo:
    known = known_reason(hazard.reason)
    skipped = known is not None and known.severity is Severity.SKIP
    return Todo(
        nodes=(node,),
        severity=(Severity.WARN if hazard.warning else Severity.SKIP if skipped else Severity.REFUSE).value,
        reason=hazard.reason,
        check=hazard.check,
        accepted=hazard.accepted,
        remedy=NOTHING_TO_DO if known is None else known.remedy,
        example=": ".join(filter(None, (node, hazard.pod, hazard.detail))),
        pods=hazard.pods,
        owners=hazard.owners,
    )


def _of_state(member: NodeState) -> Todo:
    return Todo(
        nodes=(member.node,),
        severity=(Severity.SKIP if member.place is Place.SKIPPED else Severity.REFUSE).value,
        reason=member.reason,
        remedy=member.reason.remedy,
        example=member.message,
    )


def _together(found: list[Todo]) -> Todo:
    owners = Counter[str]()
    for each in found:
        owners.update({owner.name: owner.pods for owner in each.owners})
    return replace(
        found[0],
        nodes=tuple(dict.fromkeys(node for each in found for node in each.nodes)),
        pods=sum(each.pods for each in found),
        owners=tuple(PodOwner(name=name, pods=pods) for name, pods in owners.most_common(OWNERS_NAMED)),
    )


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
