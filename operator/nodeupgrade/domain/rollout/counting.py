"""Counts and lists of the status: recomputed from objects each time, never incremented, and bounded."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from nodeupgrade.api.limits import (
    APPROVER_LENGTH,
    FAILURE_MESSAGE_LENGTH,
    FAILURE_WORD_LENGTH,
    FAILURES_LISTED,
    shorten,
)
from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction, Verdict, began_at
from nodeupgrade.api.task.status import Preview
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import (
    ContainerTotals,
    Counts,
    CurrentWave,
    NodeFailure,
    PlanSummary,
    WaveState,
    WaveStatus,
)
from nodeupgrade.api.values import NodeName, printable
from nodeupgrade.domain.rollout.actions import Judge, NodeAction
from nodeupgrade.domain.rollout.failures import NONE, kept, step_of, uid_kept
from nodeupgrade.domain.rollout.node_state import NodeState, Place
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.waves import NOBODY, Departed, WavePosition, approved_by, needs_approval, state_of

ADMISSION = "admission"
"""The step reported for a node that was refused before an agent started on it."""

_TOLD = 3

_FINE = frozenset({None, Verdict.SUCCEEDED, Verdict.PRECHECKED})


def count(members: Iterable[NodeState], gone: Departed = NOBODY) -> Counts:
    """Count nodes by state, with those that failed and are gone; one that is held or prechecked counts as pending."""
    states = tuple(members)
    places = Counter(member.place for member in states)
    outcomes = Counter(member.outcome for member in states)
    return Counts(
        total=len(states) + gone.total,
        pending=places[Place.PENDING] + places[Place.HELD] + places[Place.CHECKED],
        in_progress=places[Place.IN_FLIGHT],
        succeeded=outcomes[Verdict.SUCCEEDED],
        skipped=places[Place.SKIPPED],
        refused=places[Place.REFUSED] + outcomes[Verdict.REFUSED] + gone.refused,
        failed=outcomes[Verdict.FAILED] + gone.of(Verdict.FAILED) + gone.more.failed,
        rolled_back=outcomes[Verdict.ROLLED_BACK] + gone.of(Verdict.ROLLED_BACK),
        rollback_failed=outcomes[Verdict.ROLLBACK_FAILED] + gone.of(Verdict.ROLLBACK_FAILED),
    )


def failed(counts: Counts) -> int:
    """Return the number of nodes that failed or were rolled back."""
    return counts.failed + counts.rolled_back + counts.rollback_failed


def containers(rollout: RolloutView) -> ContainerTotals:
    """Add up the containers of all verified nodes."""
    done = _verified(rollout)
    reported = [task.reported.containers for task in done]
    return ContainerTotals(
        baseline=sum(each.baseline for each in reported),
        rewritten=sum(each.rewritten for each in reported),
        unchanged=sum(each.unchanged for each in reported),
        recreated=sum(each.recreated for each in reported),
        restarted=sum(task.verdict.restarted for task in done if task.verdict is not None)
        + sum(failure.restarted or 0 for failure in _recorded(rollout))
        + rollout.departed.restarted,
    )


def unknown_containers(rollout: RolloutView) -> int:
    """Count the containers of which it is unknown whether they restarted."""
    return sum(task.reported.containers.unknown for task in _verified(rollout))


def unknown_nodes(rollout: RolloutView) -> int:
    """Count the nodes whose tasks are gone and of which it is unknown what restarted."""
    return sum(failure.restarted is None for failure in _recorded(rollout)) + rollout.departed.unknown


def _verified(rollout: RolloutView) -> list[Task]:
    tasks = (s.task for s in rollout.members.values() if s.task is not None and s.outcome is not None)
    return [task for task in tasks if task.verdict is not None]


def _recorded(rollout: RolloutView) -> list[NodeFailure]:
    """Return the failures of members whose tasks do not tell of them."""
    members = (s for s in rollout.members.values() if s.task is None or s.task.verdict is None)
    return [s.record for s in members if s.record is not None]


def skips(rollout: RolloutView) -> dict[str, int]:
    """Count skipped nodes by reason."""
    reasons = Counter(s.reason.value for s in rollout.members.values() if s.place is Place.SKIPPED)
    return dict(sorted(reasons.items()))


def accepted(rollout: RolloutView) -> dict[str, int]:
    """Count nodes by the accepted checks that found something on them, as far as the nodes have reported."""
    tasks = (member.task for member in rollout.members.values() if member.task is not None)
    told = (hazards for task in tasks if task.status.hazards and (hazards := task.reported.hazards))
    found = (frozenset(hazard.check for hazard in hazards if hazard.accepted) for hazards in told)
    return dict(sorted(Counter(check for checks in found for check in checks).items()))


def told_of_accepted(rollout: RolloutView) -> str:
    """Return the warning that accepted checks found something, to be added to a message; empty if none did."""
    nodes = accepted(rollout)
    first = (f"{check} on {counted(number, 'node')}" for check, number in islice(nodes.items(), _TOLD))
    more = f" and {len(nodes) - _TOLD} more" if len(nodes) > _TOLD else ""
    return f" (accepted in spite of: {', '.join(first)}{more})" if nodes else ""


def failures(rollout: RolloutView) -> tuple[NodeFailure, ...]:
    """List failed and refused nodes, failed ones first; an entry keeps the time at which it was first reported.

    Until the plan is made, a node that another rollout holds is not listed.
    """
    since = {(failure.node, failure.reason): failure.time for failure in rollout.upgrade.status.failures}
    on_record = kept(rollout.upgrade.status).listed
    known = {failure.uid for failure in on_record}
    members = {uid_kept(s.view.uid): s for s in rollout.members.values() if s.view is not None}
    listed = sorted(
        (_as_told(failure, members.get(failure.uid)) for failure in on_record),
        key=lambda failure: failure.outcome is Verdict.REFUSED,
    )
    failing = [
        s
        for s in rollout.members.values()
        if (s.place is Place.REFUSED or s.outcome not in _FINE)
        and (s.view is None or uid_kept(s.view.uid) not in known)
    ]
    if rollout.upgrade.status.planned_at is None:
        queued_for = {member.node for member in rollout.held}
        failing = [member for member in failing if member.node not in queued_for]
    failing.sort(key=lambda member: member.place is Place.REFUSED)
    others = (
        NodeFailure(
            node=member.node,
            reason=member.reason.value,
            step=_step(member),
            message=shorten(printable(member.message), FAILURE_MESSAGE_LENGTH),
            time=since.get((member.node, member.reason.value)) or rollout.now,
        )
        for member in failing[: FAILURES_LISTED - len(listed)]
    )
    return (*listed, *others)


def _as_told(failure: NodeFailure, member: NodeState | None) -> NodeFailure:
    """Return a failure on record with what its node tells now: when it is looked at again, for instance."""
    if member is None or member.task is None or member.task.verdict is None or not member.begun:
        return failure
    if member.place is Place.IN_FLIGHT:
        return failure
    return replace(failure, message=shorten(printable(member.message), FAILURE_MESSAGE_LENGTH))


def wave_statuses(rollout: RolloutView) -> tuple[WaveStatus, ...]:
    """Return the status of every wave; times that are already recorded are kept."""
    before = {wave.name: wave for wave in rollout.upgrade.status.waves}
    return tuple(
        _wave(rollout, index, before.get(wave.name, WaveStatus(name=wave.name)))
        for index, wave in enumerate(rollout.waves)
    )


def current_wave(waves: tuple[WaveStatus, ...], at: WavePosition) -> CurrentWave | None:
    """Return the current wave; after the end, the last one; None without waves."""
    if not waves or at.index < 0:
        return None
    index = min(at.index, len(waves) - 1)
    wave = waves[index]
    return CurrentWave(name=wave.name, index=index + 1, of=len(waves), started_at=wave.started_at, soak_until=at.until)


def preview(rollout: RolloutView) -> PlanSummary | None:
    """Summarise the results of ``action: Plan``; under other actions, keep the previous summary."""
    if rollout.spec.action is not RolloutAction.PLAN:
        return rollout.upgrade.status.preview
    checked = [s.task for s in rollout.members.values() if _was_checked(s)]
    previews = [task.reported.preview or Preview() for task in checked if task is not None]
    return PlanSummary(
        checked=len(checked),
        refused=sum(s.outcome not in _FINE or s.place is Place.REFUSED for s in rollout.members.values()),
        rewritten=sum(each.rewritten for each in previews),
        would_restart=sum(each.would_restart for each in previews),
    )


def _was_checked(member: NodeState) -> bool:
    return member.place is Place.CHECKED or member.outcome is not None


def _wave(rollout: RolloutView, index: int, before: WaveStatus) -> WaveStatus:
    roster, state, now = rollout.waves[index], state_of(rollout.waves, index, rollout.position), rollout.now
    counts = count(roster.members, roster.departed)
    manual = before.approved_at is not None or needs_approval(rollout.waves, index)
    approver = approved_by(rollout.upgrade, roster.name) if manual else None
    over = state in {WaveState.COMPLETED, WaveState.SOAKING}
    begun = roster.begun and rollout.spec.action is not RolloutAction.PLAN
    wave = WaveStatus(
        name=roster.name,
        state=state,
        total=counts.total,
        succeeded=counts.succeeded,
        skipped=counts.skipped,
        refused=counts.refused,
        failed=failed(counts),
        in_progress=counts.in_progress,
        unlisted=kept(rollout.upgrade.status).more.get(roster.name, NONE),
        started_at=before.started_at or (now if begun else None),
        completed_at=(before.completed_at or now) if over else None,
    )
    if approver is None and not (manual and wave.started_at is not None):
        return wave
    who = (approver or before.approved_by or "")[:APPROVER_LENGTH] or None
    return replace(wave, approved_by=who, approved_at=before.approved_at or now)


def _step(member: NodeState) -> str:
    """Return the step that failed, as far as the node side has reported it."""
    task: Task | None = member.task
    if task is None or task.verdict is None or not member.begun:
        return ADMISSION
    return step_of(task)[:FAILURE_WORD_LENGTH]


# Figures for metrics: pure functions from objects and actions to numbers.

_ROLLED_BACK = frozenset({Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A group of nodes counted together; ``phase`` is the verdict if there is one, else the phase the node reports."""

    upgrade: str
    wave: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """One finished run."""

    down_seconds: float | None  # how long the node was without a healthy kubelet; None if the kubelet was never stopped
    rewritten: int  # containers whose stored hash was rewritten
    restarted: int  # containers that were restarted
    flapped: int  # pods that were reported unready although their containers kept running; at most 20 are counted
    rolled_back: Reason | None  # why the run was rolled back; None if it was not


def group_nodes(tasks: Iterable[Task], upgrades: Collection[str]) -> Mapping[NodeGroup, int]:
    """Count the nodes claimed by these NodeUpgrades (UIDs), by group."""
    mine = (task for task in tasks if task.spec.upgrade_ref.uid in upgrades)
    return Counter(
        NodeGroup(upgrade=task.spec.upgrade_ref.name, wave=task.spec.wave, phase=_phase(task)) for task in mine
    )


def flights(upgrade: Upgrade, tasks: Mapping[NodeName, Task], now: datetime) -> dict[NodeName, timedelta]:
    """Return how long each node in flight has been so, the longest first; one whose run has not begun is left out."""
    flying = (tasks[name] for name in upgrade.status.in_flight if name in tasks)
    since = {
        task.name: began_at(task.spec.run_id)
        for task in flying
        if task.spec.upgrade_ref.uid == upgrade.uid and task.spec.action is not TaskAction.WAIT
    }
    lasting = ((name, now - began) for name, began in since.items() if began is not None)
    return dict(sorted(lasting, key=lambda flight: flight[1], reverse=True))


def stored_hashes(tasks: Iterable[Task]) -> Mapping[str, int]:
    """Add up the running containers by the kubelet that computes their hash, as each node has counted them last.

    An earlier run's count is as true as its time is recent, so it counts until there is another one.
    """
    return sum((task.status.hashes.counted for task in tasks if task.status.hashes is not None), Counter[str]())


def finished_runs(applied: Iterable[NodeAction]) -> Iterator[RunFigures]:
    """Yield the runs that received their verdict; a verdict is written once, so each run is counted once.

    Prechecks (``action: Plan``) are not runs.
    """
    for action in applied:
        if isinstance(action, Judge) and action.verdict.outcome is not Verdict.PRECHECKED:
            report, verdict = action.task.reported, action.verdict
            yield RunFigures(
                down_seconds=report.kubelet.down_seconds,
                rewritten=report.containers.rewritten,
                restarted=max(verdict.restarted, report.containers.restarted),
                flapped=len(report.containers.readiness_flaps),
                rolled_back=verdict.reason if verdict.outcome in _ROLLED_BACK else None,
            )


def is_paused(upgrade: Upgrade) -> bool:
    """Report whether the rollout is paused: by its action, by annotation, or by the failure threshold."""
    requested = upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE
    stalled = any(
        condition.status == "True" and condition.reason == Reason.FAILURE_THRESHOLD_REACHED
        for condition in upgrade.status.conditions
    )
    return requested or upgrade.braked or stalled


def _phase(task: Task) -> str:
    return task.reported.phase.value if task.verdict is None else task.verdict.outcome.value
