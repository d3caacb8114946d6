"""What a status counts and lists; recomputed from objects each time, never counted up, and bounded."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, FAILURES_LISTED
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.task.status import Preview
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
from nodeupgrade.api.upgrade.waves import ApprovalPolicy
from nodeupgrade.domain.rollout.select.approvals import approved_by
from nodeupgrade.domain.rollout.select.node_state import Place, Standing
from nodeupgrade.domain.rollout.select.rollout_view import Survey
from nodeupgrade.domain.rollout.select.waves import Front, WaveRoster, state_of

ADMISSION = "admission"
"""The step in which a node is refused that nothing was begun on."""

_FINE = frozenset({None, Verdict.SUCCEEDED, Verdict.PRECHECKED})


def count(standings: Iterable[Standing]) -> Counts:
    """Count nodes by how they stand; a node that was only looked at is still to be upgraded."""
    found = tuple(standings)
    places = Counter(standing.place for standing in found)
    outcomes = Counter(standing.outcome for standing in found)
    return Counts(
        total=len(found),
        pending=places[Place.PENDING] + places[Place.CHECKED],
        in_progress=places[Place.IN_FLIGHT],
        succeeded=outcomes[Verdict.SUCCEEDED],
        skipped=places[Place.SKIPPED],
        refused=places[Place.REFUSED] + outcomes[Verdict.REFUSED],
        failed=outcomes[Verdict.FAILED],
        rolled_back=outcomes[Verdict.ROLLED_BACK],
        rollback_failed=outcomes[Verdict.ROLLBACK_FAILED],
    )


def failed(counts: Counts) -> int:
    """Count the nodes that failed or were rolled back."""
    return counts.failed + counts.rolled_back + counts.rollback_failed


def containers(survey: Survey) -> ContainerTotals:
    """Add up the containers of all nodes that have been verified."""
    done = _verified(survey)
    reported = [task.reported.containers for task in done]
    return ContainerTotals(
        baseline=sum(each.baseline for each in reported),
        rewritten=sum(each.rewritten for each in reported),
        unchanged=sum(each.unchanged for each in reported),
        restarted=sum(task.verdict.restarted for task in done if task.verdict is not None),
    )


def unknown_containers(survey: Survey) -> int:
    """Count the containers of which nobody can say whether they restarted."""
    return sum(task.reported.containers.unknown for task in _verified(survey))


def _verified(survey: Survey) -> list[Task]:
    return [s.task for s in survey.standings.values() if s.task is not None and s.outcome is not None]


def skips(survey: Survey) -> dict[str, int]:
    """Count skipped nodes by reason."""
    found = Counter(s.reason.value for s in survey.standings.values() if s.place is Place.SKIPPED)
    return dict(sorted(found.items()))


def failures(survey: Survey, now: datetime) -> tuple[NodeFailure, ...]:
    """List what went wrong, failed nodes first; an entry keeps the time at which it was first seen.

    A node that another rollout holds is no failure as long as this one is queued.
    """
    since = {(failure.node, failure.reason): failure.time for failure in survey.upgrade.status.failures}
    troubled = [s for s in survey.standings.values() if s.place is Place.REFUSED or s.outcome not in _FINE]
    if survey.upgrade.status.planned_at is None:
        queued_for = {standing.node for standing in survey.held}
        troubled = [standing for standing in troubled if standing.node not in queued_for]
    troubled.sort(key=lambda standing: standing.place is Place.REFUSED)
    return tuple(
        NodeFailure(
            node=standing.node,
            reason=standing.reason.value,
            step=_step(standing),
            message=standing.message[:FAILURE_MESSAGE_LENGTH],
            time=since.get((standing.node, standing.reason.value)) or now,
        )
        for standing in troubled[:FAILURES_LISTED]
    )


def wave_statuses(survey: Survey, at: Front, now: datetime) -> tuple[WaveStatus, ...]:
    """Report on every wave; moments are kept once they have been written."""
    before = {wave.name: wave for wave in survey.upgrade.status.waves}
    return tuple(
        _wave(survey, wave, state_of(survey.waves, index, at), before.get(wave.name, WaveStatus(name=wave.name)), now)
        for index, wave in enumerate(survey.waves)
    )


def current_wave(waves: tuple[WaveStatus, ...], at: Front) -> CurrentWave | None:
    """Name the wave whose turn it is; after the end, the last one."""
    if not waves or at.index < 0:
        return None
    index = min(at.index, len(waves) - 1)
    wave = waves[index]
    return CurrentWave(name=wave.name, index=index + 1, of=len(waves), started_at=wave.started_at, soak_until=at.until)


def preview(survey: Survey) -> PlanSummary | None:
    """Sum up what ``action: Plan`` found; afterwards keep what it found."""
    if survey.spec.action is not RolloutAction.PLAN:
        return survey.upgrade.status.preview
    looked = [s.task for s in survey.standings.values() if _has_looked(s)]
    previews = [task.reported.preview or Preview() for task in looked if task is not None]
    return PlanSummary(
        checked=len(looked),
        refused=sum(s.outcome not in _FINE or s.place is Place.REFUSED for s in survey.standings.values()),
        rewritten=sum(each.rewritten for each in previews),
        would_restart=sum(each.would_restart for each in previews),
    )


def _has_looked(standing: Standing) -> bool:
    return standing.place is Place.CHECKED or standing.outcome is not None


def _wave(survey: Survey, roster: WaveRoster, state: WaveState, before: WaveStatus, now: datetime) -> WaveStatus:
    counts = count(roster.standings)
    manual = roster.terms.approval is ApprovalPolicy.MANUAL
    approver = approved_by(survey.upgrade, roster.name) if manual else None
    over = state in {WaveState.COMPLETED, WaveState.SOAKING}
    begun = roster.begun and survey.spec.action is not RolloutAction.PLAN
    wave = WaveStatus(
        name=roster.name,
        state=state,
        total=counts.total,
        succeeded=counts.succeeded,
        skipped=counts.skipped,
        refused=counts.refused,
        failed=failed(counts),
        in_progress=counts.in_progress,
        started_at=before.started_at or (now if begun else None),
        completed_at=(before.completed_at or now) if over else None,
    )
    if approver is None and not (manual and wave.started_at is not None):
        return wave
    who = approver or before.approved_by
    return replace(wave, approved_by=who, approved_at=before.approved_at or now)


def _step(standing: Standing) -> str:
    """Name the step that failed, as far as the node side has said."""
    task: Task | None = standing.task
    if task is None or task.verdict is None or not standing.begun:
        return ADMISSION
    return task.reported.failed_step or ("preflight" if task.verdict.outcome is Verdict.REFUSED else "run")
