"""Windows: unions, blackouts, clock changes, and those that never open."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.upgrade.windows import Blackout, Window, is_open, next_opening

NIGHT = Window(start="0 22 * * 1-5", duration=timedelta(hours=4), time_zone="Europe/Berlin")
SUNDAY = Window(start="30 2 * * 0", duration=timedelta(hours=1), time_zone="Europe/Berlin")
NOON = Window(start="0 12 * * *", duration=timedelta(hours=1))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-05T20:59:59", False),
        ("2026-01-05T20:59:59.999999", False),
        ("2026-01-05T21:00:00", True),  # 22:00 in Berlin, winter
        ("2026-01-06T00:59:59", True),
        ("2026-01-06T01:00:00", False),
        ("2026-07-06T20:00:00", True),  # 22:00 in Berlin, summer
        ("2026-01-10T21:30:00", False),  # a Saturday
        ("2026-01-10T12:30:00", True),  # the union with noon
    ],
)
def test_open_hours_follow_the_zone(now: str, expected: bool) -> None:
    assert is_open((NIGHT, NOON), (), utc(now)) is expected


def test_without_windows_only_blackouts_count() -> None:
    freeze = Blackout(from_=utc("2026-12-20"), to=utc("2027-01-04"))
    assert is_open((), (), utc("2026-12-24"))
    assert not is_open((), (freeze,), utc("2026-12-24"))
    assert is_open((), (freeze,), freeze.to)
    assert next_opening((), (freeze,), utc("2026-12-24")) == freeze.to


def test_blackouts_cut_windows() -> None:
    cut = Blackout(from_=utc("2026-01-05T11:00"), to=utc("2026-01-05T12:30"))
    rest = Blackout(from_=utc("2026-01-05T12:30"), to=utc("2026-01-07T00:00"))
    assert next_opening((NOON,), (cut,), utc("2026-01-05T10:00")) == utc("2026-01-05T12:30")
    assert next_opening((NOON,), (cut, rest), utc("2026-01-05T10:00")) == utc("2026-01-07T12:00")


@pytest.mark.parametrize(
    ("day", "opens"),
    [
        ("2026-03-22", "2026-03-22T01:30"),
        ("2026-03-29", "2026-03-29T01:00"),  # 02:30 does not exist: it opens when the clock says 03:00
        ("2026-10-25", "2026-10-25T00:30"),  # 02:30 exists twice: it opens at the first
    ],
)
def test_clock_changes(day: str, opens: str) -> None:
    opening = next_opening((SUNDAY,), (), utc(day))
    assert opening == utc(opens)
    assert is_open((SUNDAY,), (), opening)
    closed = opening + SUNDAY.duration
    assert next_opening((SUNDAY,), (), closed) == next_opening((SUNDAY,), (), closed + timedelta(hours=20))


def test_a_window_that_blackouts_cover_for_good_never_opens() -> None:
    once = Window(start="0 0 29 2 *", duration=timedelta(minutes=1))
    assert next_opening((once,), (), utc("2026-01-01")) == utc("2028-02-29")
    for years, opens in ((9, utc("2036-02-29")), (11, None)):
        now = utc("2026-03-01")
        blackout = Blackout(from_=now, to=now + timedelta(days=years * 365))
        assert next_opening((once,), (blackout,), now) == opens, years


@given(second=st.integers(0, 3 * 365 * 86_400), part=st.floats(0, 0.999))
def test_the_next_opening_is_open_and_nothing_before_it_is(second: int, part: float) -> None:
    windows, now = (NIGHT, SUNDAY), utc("2025-01-01") + timedelta(seconds=second)
    opening = next_opening(windows, (), now)
    assert opening is not None
    assert is_open(windows, (), opening)
    if opening > now:
        assert not is_open(windows, (), now + (opening - now) * part)
