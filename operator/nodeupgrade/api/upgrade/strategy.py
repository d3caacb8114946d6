"""``spec.strategy`` and ``spec.timeouts``: how many nodes at a time, and how long that may take. All is mutable."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final
from zoneinfo import ZoneInfo  # reads the time zone database, which is as good as a constant

from cronsim import CronSim, CronSimError

from nodeupgrade.api.field import LABEL_KEY, WRITTEN_TIME, Field, Rule
from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.api.values import IntOrPercent

ONE: Final = IntOrPercent(1)


class TopologyMode(StrEnum):
    """Whether to finish one domain before the next, or to spread nodes in flight over all domains."""

    ZONE_BY_ZONE = "ZoneByZone"
    SPREAD = "Spread"


class GrowthType(StrEnum):
    """How the number of slots grows from one to its limit with successful nodes."""

    FIXED = "Fixed"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"


class ThresholdPolicy(StrEnum):
    """What to do when the failure threshold is reached: wait for a person, or end."""

    PAUSE = "Pause"
    ABORT = "Abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Limits per failure domain, which is the value of a node label; nodes without the label form a domain."""

    SCHEMA: ClassVar = Field("Limits per failure domain. Nodes without the label form a domain of their own.")

    key: Annotated[
        str,
        LABEL_KEY,
        Field("Node label whose value is the name of the domain, for example topology.kubernetes.io/zone."),
    ]
    max_per_domain: Annotated[
        int,
        Field(
            "Maximum number of nodes in flight at the same time in one domain.",
            minimum=1,
            maximum=SLOTS,
            defaulted=True,
        ),
    ] = 1
    mode: Annotated[
        TopologyMode,
        Field(
            "ZoneByZone: one domain is completed before the next. Spread: nodes in flight are spread over all domains.",
            defaulted=True,
        ),
    ] = TopologyMode.SPREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How slots grow: each wave starts with one node in flight, and so does the rollout after each failure.

    A round is as many successes in a row as there are slots. After each round, ``factor`` is added to the slots
    (Linear) or multiplies them (Exponential), until ``cap`` or the strategy's limit is reached.
    """

    SCHEMA: ClassVar = Field(
        "Start each wave, and start again after each failure, with one node in flight.",
        defaulted=True,
        rules=(
            Rule(
                "self.type != 'Exponential' || self.factor >= 2",
                "Exponential growth by a factor of 1 does not grow; write a factor from 2",
            ),
        ),
    )

    type: Annotated[
        GrowthType,
        Field(
            "Fixed: the limit applies from the beginning. Linear, Exponential: after as many consecutive successes as"
            " there are slots, factor is added to the number of slots, or multiplies it.",
            defaulted=True,
        ),
    ] = GrowthType.FIXED
    factor: Annotated[
        int, Field("Number of slots to add, or to multiply by.", minimum=1, maximum=SLOTS, defaulted=True)
    ] = 2
    cap: Annotated[
        IntOrPercent | None, Field("Number of slots at which growth ends, in addition to maxConcurrent.", maximum=SLOTS)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Budgets: limits on nodes in flight, unavailable and failed."""

    SCHEMA: ClassVar = Field(
        "Limits on how many nodes are upgraded at the same time, and may fail. All of them can be changed at any time.",
        defaulted=True,
        mutable=True,
    )

    max_concurrent: Annotated[
        IntOrPercent,
        Field(
            "Maximum number of nodes in flight at the same time, up to 100. A percentage is relative to the nodes of "
            "the rollout and rounds down, but to no less than one.",
            maximum=SLOTS,
            defaulted=True,
        ),
    ] = ONE
    max_unavailable: Annotated[
        IntOrPercent | None,
        Field(
            "Maximum number of nodes of the rollout that are unavailable at the same time for any reason: in flight, "
            "cordoned, or not Ready. Defaults to 10%, but to no less than one more than maxConcurrent."
        ),
    ] = None
    topology: Topology | None = None
    growth: Growth = field(default_factory=Growth)
    node_interval: Annotated[
        timedelta, Field("How long to wait after a node has succeeded before the next one is started.", defaulted=True)
    ] = timedelta()
    failure_threshold: Annotated[
        IntOrPercent,
        Field("Number of failed or rolled-back nodes at which no further node is started.", defaulted=True),
    ] = ONE
    on_threshold: Annotated[
        ThresholdPolicy,
        Field(
            "What happens when the failure threshold is reached. Pause: the rollout waits for a person. Abort: it "
            "ends.",
            defaulted=True,
        ),
    ] = ThresholdPolicy.PAUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one node, one wave and the whole rollout may take; None means no limit.

    Attributes:
        pod_hold: for how long a pod may hold its node.
    """

    SCHEMA: ClassVar = Field("Time limits.", defaulted=True, mutable=True)

    node: Annotated[
        timedelta,
        Field("How long the upgrade of one node may take before it is aborted.", positive=True, defaulted=True),
    ] = timedelta(minutes=15)
    pod_hold: Annotated[
        timedelta,
        Field(
            "How long the pods of a node may hold it by their annotation nodeupgrade.dev/hold, from when the rollout "
            "first finds it held. With 0s, pods hold nothing.",
            defaulted=True,
        ),
    ] = timedelta(hours=1)
    wave: Annotated[
        timedelta | None, Field("How long one wave may take. If unset, there is no limit.", positive=True)
    ] = None
    total: Annotated[
        timedelta | None, Field("How long the whole rollout may take. If unset, there is no limit.", positive=True)
    ] = None


# ``spec.windows`` and ``spec.blackouts``: when nodes may be started, that is, within any window but no blackout.
#
# A window opens at each time of its cron expression, in the wall-clock time of its zone, and stays open for its
# duration in real time. Daylight saving time is handled as by Debian's cron: a window that would open in the skipped
# hour opens right after it, and one that would open in the repeated hour opens once.

_FIELDS = 5
HORIZON = timedelta(days=3653)
"""How far to search for an opening, about ten years; a window that opens later counts as never opening."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A recurring time in which nodes may be started: five-field cron expression, duration and IANA time zone."""

    start: Annotated[
        str,
        Field(
            "When the window opens, as a cron expression with five fields: minute, hour, day of month, month, day of "
            "week.",
            max_length=128,
            pattern=r"\S+( +\S+){4}",
            expected="a cron expression of five fields such as '0 22 * * 1-5'",
            checks=(lambda start: _problem(replace(_PLAIN, start=start)),),
        ),
    ]
    duration: Annotated[timedelta, Field("How long the window stays open.", positive=True)]
    time_zone: Annotated[
        str,
        Field(
            "IANA time zone of start, for example Europe/Berlin.",
            max_length=64,
            pattern=r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*",
            expected="an IANA time zone such as Europe/Berlin",
            defaulted=True,
            checks=(lambda zone: _problem(replace(_PLAIN, time_zone=zone)),),
        ),
    ] = "UTC"


_PLAIN = Window(start="0 0 * * *", duration=timedelta(hours=1))


def _problem(window: Window) -> str:
    try:
        check_window(window)
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """A time in which no node may be started, whatever the windows say."""

    SCHEMA: ClassVar = Field(
        rules=(
            Rule(
                "self.to > self.from",
                "its end must be later than its begin; exchange from and to",
            ),
        ),
    )

    from_: Annotated[datetime, WRITTEN_TIME, Field("Start of the period.")]
    to: Annotated[datetime, WRITTEN_TIME, Field("End of the period.")]


def check_window(window: Window) -> None:
    """Validate a window.

    Raises:
        ValueError: Its cron expression, time zone or duration is invalid; the message says which.
    """
    _zone(window)
    if len(window.start.split()) != _FIELDS:
        raise ValueError(f"{window.start!r} is not a cron expression of five fields such as '0 22 * * 1-5'")
    try:
        CronSim(window.start, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ValueError(f"{window.start!r} is not a cron expression: {error}") from None
    if window.duration <= timedelta():
        raise ValueError("its duration must be longer than 0s")


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
    return min((start for window in windows for start in _first(_starts(window, after))), default=None)


def _first(moments: Iterator[datetime]) -> Iterator[datetime]:
    yield from (moment for moment in (next(moments, None),) if moment is not None)


def _starts(window: Window, seen_from: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    """Return the openings after a moment, or before it, nearest first, in UTC."""
    local = seen_from.astimezone(_zone(window))
    return (start.astimezone(UTC) for start in CronSim(window.start, local, reverse=backwards))


def _zone(window: Window) -> ZoneInfo:
    try:
        return ZoneInfo(window.time_zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{window.time_zone!r} is not an IANA time zone such as Europe/Berlin or UTC") from None
