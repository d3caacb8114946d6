"""The status of a NodeUpgrade: of a rollout, of a rejected spec, or of a retry that waits."""

from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import FAILURES_LISTED
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import CurrentWave, NodeFailure, RolloutPhase, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide import progress, slots
from nodeupgrade.fleet.decide.conditions import (
    QUEUED,
    ConditionInput,
    RolloutState,
    dated,
    ended_early,
    impediments,
    of_refused_retry,
    of_rejected,
    of_rollout,
    overdue,
)
from nodeupgrade.fleet.decide.counting import Tally
from nodeupgrade.fleet.decide.failures import failures_of
from nodeupgrade.fleet.decide.node_state import Place
from nodeupgrade.fleet.decide.phase import state_of
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.start_decision import StartDecision
from nodeupgrade.fleet.snapshot import FleetSnapshot


def rejected(fleet: FleetSnapshot, later: FleetSnapshot, objection: Finding, now: datetime) -> UpgradeStatus:
    """Return the status for a spec that is rejected; what was reported about the rollout itself stays.

    ``fleet`` is the input as it is now, ``later`` as it will be once the status is written.
    """
    before, reason, message = later.upgrade.status, objection.reason, objection.message
    state = RolloutState(phase=RolloutPhase.STALLED, reason=reason, message=message, stalled=True)
    conditions = of_rejected(before, objection, state, impediments(fleet, overdue(later, now)))
    return replace(
        before,
        observed_generation=later.upgrade.generation,
        phase=state.phase.value,
        progress=before.progress or "0/0",
        in_flight=slots.kept(later, now),
        failures=_listed(later),
        conditions=dated(later.upgrade, conditions, now),
    )


def retry_refused(upgrade: Upgrade, objection: Finding, now: datetime) -> UpgradeStatus:
    """Return the status of a rollout that has ended, and whose retry waits until its spec is accepted again."""
    waiting = of_refused_retry(upgrade, objection)
    renewed = dated(replace(upgrade, generation=upgrade.status.observed_generation), waiting, now)
    others = tuple(each for each in upgrade.status.conditions if each.type not in waiting)
    return replace(upgrade.status, conditions=(*renewed, *others))


def summarise(
    fleet: FleetSnapshot, rollout: RolloutView, tally: Tally, decision: StartDecision, *, reopened: bool
) -> UpgradeStatus:
    """Return the status of a rollout.

    Args:
        fleet: The input as it is now.
        rollout: The view of it as it will be once the status is written; its nodes in flight are those with a slot.
        reopened: Whether a retry is requested, and every node that it concerns is queued again.
    """
    upgrade, spec, now = rollout.upgrade, rollout.spec, rollout.now
    counts, current, before = tally.counts, _current_wave(rollout, tally.waves), fleet.upgrade.status
    state = state_of(rollout, decision, tally)
    checked = sum(member.place is Place.CHECKED for member in rollout.members.values())
    opens = None if is_open(spec.windows, spec.blackouts, now) else next_opening(spec.windows, spec.blackouts, now)
    made = rollout.planned and bool(before.accepted_spec_digest) and state.reason not in QUEUED
    started = before.started_at or (rollout.flying and spec.action is not RolloutAction.PLAN)
    late = (*ended_early(rollout.fleet), *overdue(rollout.fleet, now))
    flying = slots.granted(rollout.fleet, (rollout.members[name] for name in rollout.flying), now)
    known = ConditionInput(rollout=rollout, tally=tally, state=state, impeded_by=impediments(fleet, late))
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        accepted_spec_digest=before.accepted_spec_digest or upgrade.spec_digest,
        last_handled_retry=upgrade.retry if reopened else before.last_handled_retry,
        phase=state.phase.value,
        progress=f"{counts.succeeded + counts.skipped + checked}/{counts.total}",
        failed=counts.all_failed,
        counts=counts,
        containers=tally.containers,
        in_flight=flying,
        leader=before.leader,
        last_progress=progress.last_progress(before, state.phase, flying, counts, now),
        failures=tally.failures,
        skips=tally.skips,
        accepted=tally.accepted or None,
        current_wave=current,
        waves=tally.waves,
        ended_by_check=rollout.ended_by,
        preview=tally.preview,
        next_window=opens,
        planned_at=before.planned_at or (now if made else None),
        started_at=before.started_at or (now if started else None),
        completed_at=(before.completed_at or now) if state.over else None,
        conditions=dated(upgrade, of_rollout(known), now),
    )


def _current_wave(rollout: RolloutView, waves: tuple[WaveStatus, ...]) -> CurrentWave | None:
    """Return the current wave; after the end, the last one; None without waves."""
    at = rollout.position
    if not rollout.spec.waves or at.index < 0:
        return None
    index = min(at.index, len(waves) - 1)
    wave = waves[index]
    return CurrentWave(name=wave.name, index=index + 1, of=len(waves), started_at=wave.started_at, soak_until=at.until)


def _listed(fleet: FleetSnapshot) -> tuple[NodeFailure, ...]:
    """Return the failures that count, then what else was listed, as far as there is room."""
    others = (failure for failure in fleet.upgrade.status.failures if failure.outcome is None)
    return (*failures_of(fleet), *others)[:FAILURES_LISTED]
