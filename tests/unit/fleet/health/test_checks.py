"""Health checks as values: what lets a node start, and what ends a rollout, whatever is seen and whenever."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck
from nodeupgrade.api.upgrade.strategy import OnFailure
from nodeupgrade.fleet.health.checks import (
    HealthObservation,
    HealthReading,
    HealthState,
    awaited,
    ending,
    objection,
    reading_after,
    status_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
OBJECTS = ClusterObjects(api_version="v1", resource="pods", expression="true")
SEEN = (HealthState.HOLDING, HealthState.FAILING, HealthState.BROKEN)


def check(**terms: object) -> HealthCheck:
    given_terms = {"interval": 5 * SECOND, "for_": 12 * SECOND, "timeout": 2 * SECOND, "objects": OBJECTS, **terms}
    return HealthCheck(name="web", **given_terms)  # type: ignore[arg-type]


Seen = list[tuple[timedelta, HealthState]]
"""Seconds since the evaluation before, and what it came to."""

SEQUENCES = st.lists(st.tuples(st.integers(1, 20).map(lambda n: n * SECOND), st.sampled_from(SEEN)), max_size=12)


def read(watched: HealthCheck, seen: Seen) -> tuple[HealthReading | None, list[tuple[datetime, HealthState]]]:
    """What is known after the evaluations, and when each was made."""
    reading, at, made = None, NOW, []
    for gap, state in seen:
        at += gap
        made.append((at, state))
        reading = reading_after(reading, watched, HealthObservation(state=state, detail="why"), at)
    return reading, made


def stretch(made: list[tuple[datetime, HealthState]], allowed: timedelta) -> datetime | None:
    """The begin of the latest evaluations in a row that came to the same, with no longer gap than allowed."""
    begun = None
    for at, state in reversed(made):
        if state is not made[-1][1] or (begun is not None and begun - at > allowed):
            break
        begun = at
    return begun


@given(seen=SEQUENCES, later=st.integers(-2, 30), verdict=st.none() | st.integers(0, 120))
def test_a_node_starts_only_when_the_check_is_proven_to_have_held(seen: Seen, later: int, verdict: int | None) -> None:
    watched = check()
    reading, made = read(watched, seen)
    now = (made[-1][0] if made else NOW) + later * SECOND
    finished = None if verdict is None else NOW + verdict * SECOND
    known = {} if reading is None else {"web": reading}
    starts = objection([watched], known, now) is None and awaited([watched], known, now, finished) is None

    begun = stretch(made, timedelta(seconds=12))
    proven = (
        begun is not None
        and made[-1][1] is HealthState.HOLDING
        and 0 <= later <= 12
        and made[-1][0] - max(begun, finished or begun) >= watched.for_
    )
    assert starts is proven


@given(seen=SEQUENCES, later=st.integers(0, 30), policy=st.sampled_from(OnFailure))
def test_only_a_check_that_has_failed_throughout_ends_a_rollout(seen: Seen, later: int, policy: OnFailure) -> None:
    watched = check(on_failure=policy)
    reading, made = read(watched, seen)
    now = (made[-1][0] if made else NOW) + later * SECOND
    begun = stretch(made, timedelta(seconds=12))

    failed = begun is not None and made[-1][1] is HealthState.FAILING and later <= 12 and now - begun >= watched.for_
    expected = "web" if failed and policy is OnFailure.ABORT else None
    assert ending([watched], {} if reading is None else {"web": reading}, now) == expected


def test_what_was_seen_of_another_check_of_the_same_name_says_nothing() -> None:
    old = check(for_=timedelta())
    reading = reading_after(None, old, HealthObservation(state=HealthState.HOLDING), NOW)
    assert awaited([old], {"web": reading}, NOW, None) is None

    edited = replace(old, objects=replace(OBJECTS, expression="false"))
    closed = awaited([edited], {"web": reading}, NOW, None)
    assert closed is not None
    assert closed.message == "health check web: it has not been evaluated yet."
    assert (
        reading_after(reading, edited, HealthObservation(state=HealthState.HOLDING), NOW + SECOND).since == NOW + SECOND
    )


@pytest.mark.parametrize("state", [HealthState.FAILING, HealthState.BROKEN])
@pytest.mark.parametrize(("seconds", "lasts"), [(11, False), (12, True)])
def test_a_person_is_called_only_when_it_lasts(state: HealthState, seconds: int, lasts: bool) -> None:
    watched = check()
    reading = reading_after(None, watched, HealthObservation(state=state, detail="why"), NOW)
    found = objection([watched], {"web": reading}, NOW + seconds * SECOND)
    assert found is not None
    reasons = {HealthState.FAILING: Reason.HEALTH_CHECK_FAILED, HealthState.BROKEN: Reason.HEALTH_CHECK_ERROR}
    assert found.reason is (reasons[state] if lasts else Reason.AWAITING_HEALTH_CHECKS)
    assert "why" in found.message


def test_of_several_objections_the_lasting_one_is_told() -> None:
    young, old = replace(check(), name="young"), replace(check(), name="old")
    readings = {
        "young": reading_after(None, young, HealthObservation(state=HealthState.FAILING), NOW + 12 * SECOND),
        "old": reading_after(None, old, HealthObservation(state=HealthState.BROKEN), NOW),
    }
    found = objection([young, old], readings, NOW + 12 * SECOND)
    assert found is not None
    assert (found.reason, found.detail.split()[2]) == (Reason.HEALTH_CHECK_ERROR, "old")


def test_a_reading_that_is_too_old_is_a_broken_check() -> None:
    watched = check()
    reading = reading_after(None, watched, HealthObservation(state=HealthState.HOLDING), NOW)
    known = status_of(watched, {"web": reading}, NOW + 13 * SECOND)
    assert (known.state, known.since) == (HealthState.BROKEN, NOW)
    assert known.message == "its latest evaluation, of 2026-01-01T00:00:00Z, is too old"
