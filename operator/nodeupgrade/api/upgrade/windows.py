"""``spec.windows`` and ``spec.blackouts``: when nodes may be started, that is, within any window but no blackout.

A window opens at each time of its cron expression, in the wall-clock time of its zone, and stays open for its
duration in real time. Daylight saving time is handled as by Debian's cron: a window that would open in the skipped
hour opens right after it, and one that would open in the repeated hour opens once.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo  # reads the time zone database, which is as good as a constant

from cronsim import CronSim, CronSimError

from nodeupgrade.api.field import WRITTEN_TIME, Field, Rule, declared

HORIZON = timedelta(days=3653)
"""How far to search for an opening; a window that opens later counts as never opening."""


def _start_problem(start: str) -> str:
    try:
        CronSim(start, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return f"{start!r} is not a cron expression: {error}"
    return ""


def _zone_problem(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return f"{zone!r} is not an IANA time zone such as Europe/Berlin or UTC"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A recurring period in which nodes may be started."""

    start: Annotated[
        str,
        "When the window opens: a cron expression with five fields (minute, hour, day of month, month, day of week).",
        Field(
            max_length=128,
            pattern=r"\S+( +\S+){4}",
            expected="a cron expression of five fields such as '0 22 * * 1-5'",
            validators=(_start_problem,),
        ),
    ]
    duration: Annotated[timedelta, "How long the window stays open.", Field(positive=True)]
    time_zone: Annotated[
        str,
        "IANA time zone of start, for example Europe/Berlin.",
        Field(
            max_length=64,
            pattern=r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*",
            expected="an IANA time zone such as Europe/Berlin",
            validators=(_zone_problem,),
        ),
    ] = "UTC"


@declared(Rule("self.to > self.from", "to must be later than from; swap them"))
@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """A period in which no node may be started, even during a window."""

    from_: Annotated[datetime, WRITTEN_TIME, "Start of the period."]
    to: Annotated[datetime, WRITTEN_TIME, "End of the period."]


def is_open(windows: Sequence[Window], blackouts: Iterable[Blackout], now: datetime) -> bool:
    """Report whether a node may be started now. Without windows, it may at any time outside blackouts."""
    if any(blackout.from_ <= now < blackout.to for blackout in blackouts):
        return False
    return not windows or any(_is_open(window, now) for window in windows)


def next_opening(windows: Sequence[Window], blackouts: Sequence[Blackout], now: datetime) -> datetime | None:
    """Return the next time from now on at which a node may be started; None if there is none within ten years."""
    moment: datetime | None = now
    while moment is not None and not is_open(windows, blackouts, moment):
        ends = [blackout.to for blackout in blackouts if blackout.from_ <= moment < blackout.to]
        moment = max(ends) if ends else _next_start(windows, moment)
    return None if moment is None or moment > now + HORIZON else moment


def _is_open(window: Window, now: datetime) -> bool:
    begun = (start for start in _starts(window, now + timedelta(seconds=1), backwards=True) if start <= now)
    started = next(begun, None)
    return started is not None and now < started + window.duration


def _next_start(windows: Iterable[Window], after: datetime) -> datetime | None:
    return min(filter(None, (next(_starts(window, after), None) for window in windows)), default=None)


def _starts(window: Window, seen_from: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    """Return the openings after or before a moment, nearest first, in UTC."""
    local = seen_from.astimezone(ZoneInfo(window.time_zone))
    return (start.astimezone(UTC) for start in CronSim(window.start, local, reverse=backwards))
