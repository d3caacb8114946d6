"""Gates: each decides whether any node may be started now, and if not, why."""

from collections.abc import Callable
from datetime import datetime, timedelta

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.health.checks import describe_end

Gate = Callable[[RolloutView], Finding | None]


def object_stays(rollout: RolloutView) -> Finding | None:
    """Start nothing while the NodeUpgrade is being deleted."""
    if not rollout.upgrade.deleting:
        return None
    return Finding(reason=Reason.DELETING, detail="the NodeUpgrade is being deleted", remedy="")


def not_aborted(rollout: RolloutView) -> Finding | None:
    """Start nothing in an aborted rollout."""
    if rollout.spec.action is not RolloutAction.ABORT:
        return None
    return Finding(reason=Reason.ABORTED, detail="spec.action is Abort")


def not_ended_by_a_check(rollout: RolloutView) -> Finding | None:
    """Start nothing once a health check with ``onFailure: Abort`` has ended the rollout."""
    return Finding(reason=Reason.ABORTED, detail=describe_end(rollout.ended_by)) if rollout.ended_by else None


def no_node_is_lost(rollout: RolloutView) -> Finding | None:
    """Start nothing while a node could not be rolled back: a person must repair it first."""
    lost = [member.node for member in rollout.members.values() if member.judged is Verdict.ROLLBACK_FAILED]
    lost += [each.node for each in rollout.departed.listed if each.outcome is Verdict.ROLLBACK_FAILED]
    if not lost:
        return None
    detail = f"{counted(len(lost), 'node')} could not be rolled back ({lost[0]})"
    return Finding(reason=Reason.ROLLBACK_FAILED, detail=detail)


def threshold(rollout: RolloutView) -> Finding | None:
    """Stop when ``strategy.failureThreshold`` nodes of the rollout have failed."""
    limit = rollout.spec.strategy.failure_threshold.of(rollout.total + rollout.departed.total)
    if rollout.failed < max(1, limit):
        return None
    return Finding(reason=Reason.FAILURE_THRESHOLD_REACHED, detail=f"{counted(rollout.failed, 'node')} failed")


def wave_threshold(rollout: RolloutView) -> Finding | None:
    """Stop when as many nodes of one wave have failed as its own threshold says."""
    for wave in rollout.waves:
        if wave.terms.failure_threshold is None:
            continue
        if wave.failed >= max(1, wave.terms.failure_threshold.of(wave.total)):
            detail = f"{counted(wave.failed, 'node')} of wave {wave.name} failed"
            return Finding(reason=Reason.FAILURE_THRESHOLD_REACHED, detail=detail)
    return None


def not_paused(rollout: RolloutView) -> Finding | None:
    """Start nothing under ``action: Pause`` or, whatever the action, under the pause annotation."""
    if rollout.upgrade.paused_by_annotation:
        detail = "paused by the annotation nodeupgrade.dev/pause"
        return Finding(reason=Reason.PAUSED, detail=detail, remedy="remove it to continue")
    if rollout.spec.action is RolloutAction.PAUSE:
        return Finding(reason=Reason.PAUSED, detail="paused")
    return None


def in_time(rollout: RolloutView) -> Finding | None:
    """Start nothing once the rollout or the current wave has exceeded ``spec.timeouts``."""
    timeouts, index, waves = rollout.spec.timeouts, rollout.position.index, rollout.upgrade.status.waves
    if _is_late(rollout.upgrade.status.started_at, timeouts.total, rollout.now):
        return _late("the rollout", timeouts.total)
    if index < len(waves) and _is_late(waves[index].started_at, timeouts.wave, rollout.now):
        return _late(f"wave {waves[index].name}", timeouts.wave)
    return None


def no_health_check_fails(rollout: RolloutView) -> Finding | None:
    """Start nothing while a health check fails or cannot be evaluated; this is reported while a wave soaks, too."""
    return rollout.health_objection


def wave_has_its_turn(rollout: RolloutView) -> Finding | None:
    """Wait for the previous wave to soak, for an approval, or for a node of the current wave."""
    at = rollout.position
    return Finding(reason=at.reason, detail=at.message, remedy="") if at.message else None


def window_is_open(rollout: RolloutView) -> Finding | None:
    """Start nodes only inside windows, and never in a blackout."""
    spec, now = rollout.spec, rollout.now
    if is_open(spec.windows, spec.blackouts, now):
        return None
    opens = next_opening(spec.windows, spec.blackouts, now)
    until = "no window opens any more" if opens is None else f"the next window opens at {timestamp(opens)}"
    return Finding(reason=Reason.WAITING_FOR_WINDOW, detail=until)


def health_checks_have_held(rollout: RolloutView) -> Finding | None:
    """Start nothing until every health check has held for long enough, also since the last node was finished."""
    return rollout.health_awaited


GATES: tuple[Gate, ...] = (
    object_stays,
    not_aborted,
    not_ended_by_a_check,
    no_node_is_lost,
    threshold,
    wave_threshold,
    not_paused,
    in_time,
    no_health_check_fails,
    wave_has_its_turn,
    window_is_open,
    health_checks_have_held,
)
"""Gates for upgrades; if several are closed, the first one is reported."""

PRECHECK_GATES: tuple[Gate, ...] = (object_stays, not_paused)
"""Gates for ``action: Plan``, which changes nothing."""


def _is_late(since: datetime | None, limit: timedelta | None, now: datetime) -> bool:
    return since is not None and limit is not None and now > since + limit


def _late(what: str, limit: timedelta | None) -> Finding:
    detail = f"{what} has taken longer than {render_duration(limit or timedelta())}"
    return Finding(reason=Reason.TIMED_OUT, detail=detail)
