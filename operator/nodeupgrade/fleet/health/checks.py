"""Health checks: what is known of each, when it lets a node start, and when it ends the rollout.

Evaluations are made elsewhere; here are only values. A check closes the way unless it is proven to hold: one that was
not evaluated yet, cannot be evaluated, or was evaluated too long ago does not pass.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.strategy import OnFailure
from nodeupgrade.findings.finding import Finding


class HealthState(StrEnum):
    """What is known of a health check."""

    PENDING = "Pending"
    """It has not been evaluated yet."""
    HOLDING = "Holding"
    FAILING = "Failing"
    BROKEN = "Broken"
    """It cannot be evaluated, which says nothing about the cluster."""


_CLOSING = {
    HealthState.FAILING: (Reason.HEALTH_CHECK_FAILED, "fails"),
    HealthState.BROKEN: (Reason.HEALTH_CHECK_ERROR, "cannot be evaluated"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthObservation:
    """The result of one evaluation; ``detail`` says why the check does not hold."""

    state: HealthState
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthStatus:
    """What is known of a check at a moment: since when, and why it does not hold."""

    name: str
    state: HealthState = HealthState.PENDING
    since: datetime | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReading:
    """All that is known of a health check from its evaluations."""

    check: HealthCheck  # the check as it was when it was evaluated
    state: HealthState  # what the latest evaluation came to
    since: datetime  # begin of the first evaluation of those in a row, without a gap, that came to the same
    at: datetime  # begin of the latest evaluation
    detail: str = ""  # why it does not hold


def reading_after(
    before: HealthReading | None, check: HealthCheck, observed: HealthObservation, at: datetime
) -> HealthReading:
    """Return the reading after another evaluation that began at a given time."""
    unbroken = before is not None and before.check == check and is_fresh(before, at) and before.state is observed.state
    since = before.since if before is not None and unbroken else at
    return HealthReading(check=check, state=observed.state, since=since, at=at, detail=observed.detail)


def is_fresh(reading: HealthReading, now: datetime) -> bool:
    """Report whether a reading may be relied on: not older than two intervals and a timeout, nor from the future."""
    check = reading.check
    return timedelta() <= now - reading.at <= 2 * check.interval + check.timeout


def status_of(check: HealthCheck, readings: Mapping[str, HealthReading], now: datetime) -> HealthStatus:
    """Return what is known of a check now."""
    reading = readings.get(check.name)
    if reading is None or reading.check != check:
        return HealthStatus(name=check.name, message="it has not been evaluated yet")
    if not is_fresh(reading, now):
        message = f"its latest evaluation, of {timestamp(reading.at)}, is too old"
        return HealthStatus(name=check.name, state=HealthState.BROKEN, since=_whole(reading.at), message=message)
    message = shorten(reading.detail, FAILURE_MESSAGE_LENGTH)
    return HealthStatus(name=check.name, state=reading.state, since=_whole(reading.since), message=message)


def objection(checks: Iterable[HealthCheck], readings: Mapping[str, HealthReading], now: datetime) -> Finding | None:
    """Return which check fails or cannot be evaluated, first those for which it has lasted for a while; or None."""
    found = tuple(_objections(checks, readings, now))
    return next((each for each in found if each.reason is not Reason.AWAITING_HEALTH_CHECKS), next(iter(found), None))


def _objections(
    checks: Iterable[HealthCheck], readings: Mapping[str, HealthReading], now: datetime
) -> Iterator[Finding]:
    for check in checks:
        known = status_of(check, readings, now)
        if known.since is None or known.state not in _CLOSING:
            continue
        reason, verb = _CLOSING[known.state]
        detail = f"health check {check.name} {verb} since {timestamp(known.since)}: {known.message}"
        yield Finding(
            reason=reason if now - known.since >= check.for_ else Reason.AWAITING_HEALTH_CHECKS, detail=detail
        )


def awaited(
    checks: Iterable[HealthCheck], readings: Mapping[str, HealthReading], now: datetime, since: datetime | None
) -> Finding | None:
    """Return which check has yet to hold for as long as it must; None if all have.

    Args:
        checks: The checks, none of which fails.
        readings: What is known of them, by name.
        now: Wall-clock time, UTC.
        since: When the last node was finished: what was seen before says nothing about it.
    """
    for check in checks:
        known = status_of(check, readings, now)
        if known.state is not HealthState.HOLDING:
            return Finding(reason=Reason.PROGRESSING, detail=f"health check {check.name}: {known.message}")
        reading = readings[check.name]
        begun = reading.since if since is None else max(reading.since, since)
        if reading.at < begun + check.for_:
            must = f"health check {check.name} must hold for {render_duration(check.for_)}"
            detail = f"{must}; it has held since {timestamp(_whole(begun))}"
            return Finding(reason=Reason.PROGRESSING, detail=detail)
    return None


def ending(checks: Iterable[HealthCheck], readings: Mapping[str, HealthReading], now: datetime) -> str | None:
    """Return the name of a check that has failed for so long that it ends the rollout; None if there is none."""
    for check in checks:
        known = status_of(check, readings, now)
        failing = check.on_failure is OnFailure.ABORT and known.state is HealthState.FAILING
        if failing and known.since is not None and now - known.since >= check.for_:
            return check.name
    return None


def ended_by(upgrade: Upgrade, spec: UpgradeSpec, readings: Mapping[str, HealthReading], now: datetime) -> str | None:
    """Return the check that ends the rollout, for good once it is on record; None before a node is started."""
    status = upgrade.status
    if status.ended_by_check or status.started_at is None or spec.action is RolloutAction.PLAN:
        return status.ended_by_check
    return ending(spec.health_checks, readings, now)


def describe_end(name: str) -> str:
    """Say which check has ended the rollout."""
    return f"health check {name} failed, at which its onFailure ends the rollout"


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
