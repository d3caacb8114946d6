"""Counts and lists of the status: recomputed from objects each time, never incremented, and bounded."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from nodeupgrade.api.limits import (
    APPROVER_LENGTH,
    FAILURE_MESSAGE_LENGTH,
    FAILURE_WORD_LENGTH,
    FAILURES_LISTED,
    stored_uid,
)
from nodeupgrade.api.printable import stored
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import Preview
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ContainerTotals, Counts, NodeFailure, PlanSummary, WaveState, WaveStatus
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.failures import step_of

ADMISSION = "admission"
"""The step reported for a node that was refused before an agent started on it."""

_CHECKS_NAMED = 3

_FINE = frozenset({None, Verdict.SUCCEEDED, Verdict.PRECHECKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counts and lists of a rollout's status."""

    counts: Counts
    containers: ContainerTotals
    unknown_containers: int  # containers of which it is not known whether they restarted
    unknown_nodes: int  # nodes whose tasks are gone and of which it is not known what restarted
    skips: Mapping[str, int]  # skipped nodes by reason
    accepted: Mapping[str, int]  # nodes by the accepted checks that found something on them
    failures: tuple[NodeFailure, ...]
    waves: tuple[WaveStatus, ...]
    preview: PlanSummary | None

    @property
    def warning(self) -> str:
        """The warning that accepted checks found something, to be added to a message; empty if none did."""
        first = (
            f"{check} on {counted(number, 'node')}" for check, number in islice(self.accepted.items(), _CHECKS_NAMED)
        )
        more = f" and {len(self.accepted) - _CHECKS_NAMED} more" if len(self.accepted) > _CHECKS_NAMED else ""
        return f" (accepted in spite of: {', '.join(first)}{more})" if self.accepted else ""


def tally(rollout: RolloutView) -> Tally:
    """Count everything that the status of a rollout reports."""
    tasks = (s.task for s in rollout.members.values() if s.task is not None and s.outcome is not None)
    done, recorded = [task for task in tasks if task.verdict is not None], (*_recorded(rollout), *rollout.departed)
    return Tally(
        counts=_count(rollout.members.values(), rollout.departed),
        containers=_containers(done, recorded),
        unknown_containers=sum(task.reported.containers.unknown for task in done),
        unknown_nodes=sum(failure.restarted is None for failure in rollout.ledger.failures),
        skips=_skips(rollout),
        accepted=_accepted(rollout),
        failures=_failures(rollout),
        waves=_waves(rollout),
        preview=_preview(rollout),
    )


def _count(members: Iterable[NodeState], departed: Sequence[NodeFailure]) -> Counts:
    """Count nodes by state, with those that failed and are gone; one that is held or prechecked counts as pending."""
    states = tuple(members)
    places = Counter(member.place for member in states)
    outcomes = Counter([*(member.outcome for member in states), *(each.outcome for each in departed)])
    return Counts(
        total=len(states) + len(departed),
        pending=places[Place.PENDING] + places[Place.HELD] + places[Place.CHECKED],
        in_progress=places[Place.IN_FLIGHT],
        succeeded=outcomes[Verdict.SUCCEEDED],
        skipped=places[Place.SKIPPED],
        refused=places[Place.REFUSED] + outcomes[Verdict.REFUSED],
        failed=outcomes[Verdict.FAILED],
        rolled_back=outcomes[Verdict.ROLLED_BACK],
        rollback_failed=outcomes[Verdict.ROLLBACK_FAILED],
    )


def _containers(done: Sequence[Task], recorded: Sequence[NodeFailure]) -> ContainerTotals:
    """Add up the containers of all verified nodes."""
    reported = [task.reported.containers for task in done]
    return ContainerTotals(
        baseline=sum(each.baseline for each in reported),
        rewritten=sum(each.rewritten for each in reported),
        unchanged=sum(each.unchanged for each in reported),
        recreated=sum(each.recreated for each in reported),
        restarted=sum(task.verdict.restarted for task in done if task.verdict is not None)
        + sum(failure.restarted or 0 for failure in recorded),
    )


def _recorded(rollout: RolloutView) -> list[NodeFailure]:
    """Return the failures on record of members whose tasks do not show them."""
    members = (s for s in rollout.members.values() if s.task is None or s.task.verdict is None)
    return [s.record for s in members if s.record is not None]


def _skips(rollout: RolloutView) -> dict[str, int]:
    """Count skipped nodes by reason."""
    reasons = Counter(s.reason.value for s in rollout.members.values() if s.place is Place.SKIPPED)
    return dict(sorted(reasons.items()))


def _accepted(rollout: RolloutView) -> dict[str, int]:
    """Count nodes by the accepted checks that found something on them; a node may report any name."""
    tasks = (member.task for member in rollout.members.values() if member.task is not None)
    reported = (hazards for task in tasks if task.status.hazards and (hazards := task.reported.hazards))
    found = (frozenset(hazard.check for hazard in hazards if hazard.accepted) for hazards in reported)
    known = rollout.spec.preflight.accept
    return dict(sorted(Counter(check for checks in found for check in checks if check in known).items()))


def _failures(rollout: RolloutView) -> tuple[NodeFailure, ...]:
    """List failed and refused nodes, failed ones first; an entry keeps the time at which it was first reported.

    Until the plan is made, a node that another rollout holds is not listed.
    """
    since = {(failure.node, failure.reason): failure.time for failure in rollout.upgrade.status.failures}
    known = {failure.uid for failure in rollout.ledger.failures}
    members = {stored_uid(s.view.uid): s for s in rollout.members.values() if s.view is not None}
    listed = sorted(
        (_with_news(failure, members.get(failure.uid)) for failure in rollout.ledger.failures[:FAILURES_LISTED]),
        key=lambda failure: failure.outcome is Verdict.REFUSED,
    )
    failing = [
        s
        for s in rollout.members.values()
        if (s.place is Place.REFUSED or s.outcome not in _FINE)
        and (s.view is None or stored_uid(s.view.uid) not in known)
        and s.failure_uid not in known
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
            message=stored(member.message, FAILURE_MESSAGE_LENGTH),
            time=since.get((member.node, member.reason.value)) or rollout.now,
        )
        for member in failing[: FAILURES_LISTED - len(listed)]
    )
    return (*listed, *others)


def _with_news(failure: NodeFailure, member: NodeState | None) -> NodeFailure:
    """Return a failure on record with its node's present message, which may say when the node is examined again."""
    if member is None or member.task is None or member.task.verdict is None or not member.begun:
        return failure
    if member.place is Place.IN_FLIGHT:
        return failure
    return replace(failure, message=stored(member.message, FAILURE_MESSAGE_LENGTH))


def _waves(rollout: RolloutView) -> tuple[WaveStatus, ...]:
    """Return the status of every wave; times that are already recorded are kept."""
    before = {wave.name: wave for wave in rollout.upgrade.status.waves}
    return tuple(
        _wave(rollout, index, before.get(wave.name, WaveStatus(name=wave.name)))
        for index, wave in enumerate(rollout.waves)
    )


def _preview(rollout: RolloutView) -> PlanSummary | None:
    """Summarise the results of ``action: Plan``; under other actions, keep the previous summary."""
    if rollout.spec.action is not RolloutAction.PLAN:
        return rollout.upgrade.status.preview
    checked = [s.task for s in rollout.members.values() if s.place is Place.CHECKED or s.outcome is not None]
    previews = [task.reported.preview or Preview() for task in checked if task is not None]
    return PlanSummary(
        checked=len(checked),
        refused=sum(s.outcome not in _FINE or s.place is Place.REFUSED for s in rollout.members.values()),
        rewritten=sum(each.rewritten for each in previews),
        would_restart=sum(each.would_restart for each in previews),
    )


def _state(rollout: RolloutView, index: int) -> WaveState:
    """Return the state of one wave; a later one that has not begun is pending even if nothing is left to do in it."""
    wave, position = rollout.waves[index], rollout.position
    if index == position.index:
        return position.state
    if position.index < 0 or (not wave.begun and (index > position.index or not wave.over)):
        return WaveState.PENDING
    return WaveState.COMPLETED if wave.over else WaveState.RUNNING


def _wave(rollout: RolloutView, index: int, before: WaveStatus) -> WaveStatus:
    roster, state, now = rollout.waves[index], _state(rollout, index), rollout.now
    counts = _count(roster.members, roster.departed)
    manual = before.approved_at is not None or roster.needs_approval
    approver = roster.approved_by if manual else None
    over = state in {WaveState.COMPLETED, WaveState.SOAKING}
    wave = WaveStatus(
        name=roster.name,
        state=state,
        total=counts.total,
        succeeded=counts.succeeded,
        skipped=counts.skipped,
        refused=counts.refused,
        failed=counts.all_failed,
        in_progress=counts.in_progress,
        started_at=before.started_at or (now if roster.begun else None),
        last_verdict_at=roster.last_touched if roster.begun else None,
        completed_at=(before.completed_at or roster.last_verdict or now) if over else None,
    )
    if approver is None and not (manual and wave.started_at is not None):
        return wave
    who = (approver or before.approved_by or "")[:APPROVER_LENGTH] or None
    return replace(wave, approved_by=who, approved_at=before.approved_at or now)


def _step(member: NodeState) -> str:
    """Return the step that failed, as far as the node side has reported it."""
    if member.task is None or member.task.verdict is None or not member.begun:
        return ADMISSION
    return step_of(member.task)[:FAILURE_WORD_LENGTH]
