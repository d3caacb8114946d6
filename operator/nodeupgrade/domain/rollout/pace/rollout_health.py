"""The health checks of a rollout: what they object to now, at its end, and what is known of each."""

from datetime import datetime

from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout import health
from nodeupgrade.domain.rollout.health import HealthStatus
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView


def unproven(rollout: RolloutView) -> Finding | None:
    """Return why a rollout whose nodes are all upgraded has not succeeded yet; None if it has, or changed nothing."""
    if rollout.upgrade.status.started_at is None:
        return None
    return objection(rollout) or awaited(rollout)


def ended_by(rollout: RolloutView) -> str | None:
    """Return the health check that ends the rollout; None if none does.

    What the status records stays. Nothing is ended before a node was started.
    """
    status = rollout.upgrade.status
    if status.ended_by_check or status.started_at is None or rollout.spec.action is RolloutAction.PLAN:
        return status.ended_by_check
    return health.ending(rollout.spec.health_checks, rollout.fleet.health, rollout.now)


def told_end(name: str) -> str:
    """Say which check has ended the rollout."""
    return f"health check {name} failed, at which its onFailure ends the rollout"


def statuses(rollout: RolloutView) -> tuple[HealthStatus, ...]:
    """Return what is known of each check."""
    return tuple(health.status_of(check, rollout.fleet.health, rollout.now) for check in rollout.spec.health_checks)


def objection(rollout: RolloutView) -> Finding | None:
    """Return which health check fails or cannot be evaluated; None if there is none."""
    return health.objection(rollout.spec.health_checks, rollout.fleet.health, rollout.now)


def awaited(rollout: RolloutView) -> Finding | None:
    """Return which health check has yet to hold for as long as it must; None if there is none."""
    return health.awaited(rollout.spec.health_checks, rollout.fleet.health, rollout.now, _last_verdict(rollout))


def _last_verdict(rollout: RolloutView) -> datetime | None:
    """Return when the last node was finished; None if none was."""
    tasks = (member.task for member in rollout.members.values() if member.judged is not None)
    verdicts = (task.verdict for task in tasks if task is not None)
    times = [verdict.decided_at for verdict in verdicts if verdict is not None and verdict.decided_at is not None]
    times += [failure.time for failure in rollout.departed.listed if failure.time is not None]
    return max(times, default=None)
