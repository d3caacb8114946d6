"""The status of a NodeUpgrade: what counts, conditions and phase say of a rollout, or of a spec that is rejected."""

from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import MissingNodes, RolloutPhase, UpgradeStatus
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout import conditions, counting, gates
from nodeupgrade.domain.rollout.node_state import Place
from nodeupgrade.domain.rollout.phase import RolloutState
from nodeupgrade.domain.rollout.rollout_view import RolloutView


def rejected(
    upgrade: Upgrade, objection: Finding, now: datetime, *, impeded_by: tuple[Finding, ...] = ()
) -> UpgradeStatus:
    """Return the status for a spec that is rejected; what was reported about the rollout itself is kept."""
    before, reason, message = upgrade.status, objection.reason, objection.message
    state = RolloutState(phase=RolloutPhase.STALLED, reason=reason, message=message, stalled=True)
    undated = conditions.of_rejected(before, objection, state, impeded_by)
    return replace(
        before,
        observed_generation=upgrade.generation,
        phase=state.phase.value,
        progress=before.progress or "0/0",
        conditions=conditions.dated(upgrade, undated, now),
    )


def retry_refused(upgrade: Upgrade, objection: Finding, now: datetime) -> UpgradeStatus:
    """Return the status of a rollout that has ended, and whose retry waits because its spec is rejected.

    The retry is not handled: it is carried out once the spec is accepted again.
    """
    told = conditions.of_refused_retry(upgrade, objection)
    dated = conditions.dated(replace(upgrade, generation=upgrade.status.observed_generation), (told,), now)
    others = tuple(each for each in upgrade.status.conditions if each.type != told.type)
    return replace(upgrade.status, conditions=(*dated, *others))


def summarise(
    rollout: RolloutView,
    state: RolloutState,
    *,
    before: UpgradeStatus,
    reopened: bool,
    impeded_by: tuple[Finding, ...] = (),
    missing: MissingNodes | None = None,
) -> UpgradeStatus:
    """Return the status of a rollout.

    Args:
        rollout: The view of it as it will be once the status is written; its nodes in flight are those with a slot.
        state: The state of the rollout as a whole.
        before: The status as it is now.
        reopened: Whether every node that a retry was requested for is queued again.
        impeded_by: What keeps nodes from making progress.
        missing: The nodes in flight that are gone.
    """
    upgrade, spec, now = rollout.upgrade, rollout.spec, rollout.now
    counts, totals = counting.count(rollout.members.values(), rollout.departed), counting.containers(rollout)
    waves = counting.wave_statuses(rollout)
    checked = sum(member.place is Place.CHECKED for member in rollout.members.values())
    upgrades = spec.action is not RolloutAction.PLAN
    opens = None if is_open(spec.windows, spec.blackouts, now) else next_opening(spec.windows, spec.blackouts, now)
    undated = conditions.of_rollout(rollout, state, counts, totals, impeded_by)
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        accepted_spec_digest=before.accepted_spec_digest or upgrade.spec_digest,
        last_handled_retry=upgrade.retry if reopened and upgrade.retry_asked else before.last_handled_retry,
        phase=state.phase.value,
        progress=f"{counts.succeeded + counts.skipped + checked}/{counts.total}",
        failed=counting.failed(counts),
        counts=counts,
        containers=totals,
        in_flight=rollout.flying,
        missing=missing,
        failures=counting.failures(rollout),
        skips=counting.skips(rollout),
        accepted=counting.accepted(rollout) or None,
        current_wave=counting.current_wave(waves, rollout.position) if spec.waves else None,
        waves=waves,
        ended_by_check=gates.ended_by(rollout),
        preview=counting.preview(rollout),
        next_window=opens,
        planned_at=before.planned_at or (now if _is_made(rollout, state, before) else None),
        started_at=before.started_at or (now if rollout.flying and upgrades else None),
        completed_at=(before.completed_at or now) if state.over else None,
        conditions=conditions.dated(upgrade, undated, now),
    )


def _is_made(rollout: RolloutView, state: RolloutState, before: UpgradeStatus) -> bool:
    """Report whether the plan is made: the accepted spec is recorded, and every node that needs a claim has one."""
    return rollout.planned and bool(before.accepted_spec_digest) and state.reason not in conditions.QUEUED
