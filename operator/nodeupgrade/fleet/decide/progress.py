"""Whether a rollout makes progress, and since when it does not."""

from datetime import datetime

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import Counts, RolloutPhase, Slot, UpgradeStatus
from nodeupgrade.findings.finding import Finding

PLANNED_WAITS = frozenset(
    {
        RolloutPhase.QUEUED,
        RolloutPhase.WAITING_FOR_WINDOW,
        RolloutPhase.AWAITING_APPROVAL,
        RolloutPhase.SOAKING,
        RolloutPhase.PAUSED,
        RolloutPhase.PLANNED,
    }
)
"""Phases in which a rollout waits for a time or a person, as it was asked to; each names what it waits for."""


def last_progress(
    before: UpgradeStatus, phase: RolloutPhase, slots: tuple[Slot, ...], counts: Counts, now: datetime
) -> datetime:
    """Return when the rollout last made progress, given the next status."""
    runs = [(slot.node, slot.run) for slot in slots]
    changed = runs != [(slot.node, slot.run) for slot in before.in_flight] or counts != before.counts
    waited = before.phase in PLANNED_WAITS and phase not in {*PLANNED_WAITS, RolloutPhase.STALLED}
    return now if before.last_progress is None or changed or waited else before.last_progress


def silence(status: UpgradeStatus, spec: UpgradeSpec, counts: Counts, now: datetime) -> Finding | None:
    """Return that the rollout has made no progress for too long, given its present status; None if it has.

    A node may take as long as ``timeouts.node`` allows, and the next one starts after ``strategy.nodeInterval``.
    """
    since, limit = status.last_progress, spec.timeouts.no_progress
    if since is None or counts != status.counts:
        return None
    if now <= since + max(limit, spec.timeouts.node * 2) + spec.strategy.node_interval:
        return None
    detail = f"nothing has changed since {timestamp(since)}, for more than {render_duration(limit)}"
    return Finding(reason=Reason.NO_PROGRESS, detail=detail)
