"""Who leads, by what a candidate sees of the Lease: whatever is written there, and whatever clocks say."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.fleet.leadership.election import (
    DURATION,
    RENEW_WITHIN,
    RETRY,
    Contender,
    Create,
    Decision,
    LeaseObservation,
    LeaseRecord,
    Update,
    Yield,
    decide,
    released,
    see,
)
from nodeupgrade.fleet.leadership.lease import LAST_TERM, LONGEST_SECONDS, read, render
from nodeupgrade.fleet.leadership.term import epoch_of, outranks, term_of

ME, OTHER = Contender(identity="me"), LeaseRecord(holder="other", duration=DURATION, transitions=4, renewed_at="then")
MOMENT = "2026-01-01T00:00:00.000000Z"


def decided(lease: LeaseRecord | None, after: float, me: Contender = ME) -> Decision:
    return decide(LeaseObservation(lease=lease, since=100.0), me, 100.0 + after, MOMENT)


def test_a_lease_as_it_is_installed_is_free() -> None:
    found = decided(read({"metadata": {"name": "installed"}}), 0)
    assert isinstance(found, Update)
    assert (found.lease.holder, found.lease.transitions) == ("me", 1)


@pytest.mark.parametrize("after", [0.0, 5.0, DURATION.total_seconds() - 0.1])
def test_whoever_renewed_lately_leads(after: float) -> None:
    assert isinstance(decided(OTHER, after), Yield)


def test_whoever_renews_no_more_is_succeeded() -> None:
    found = decided(OTHER, DURATION.total_seconds(), replace(ME, last_term=4))
    assert isinstance(found, Update)
    assert (found.lease.holder, found.lease.transitions) == ("me", 5)


def test_what_was_released_is_free_at_once() -> None:
    found = decided(released(OTHER, MOMENT), 0, replace(ME, last_term=4))
    assert isinstance(found, Update)
    assert (found.lease.holder, found.lease.transitions) == ("me", 5)


def test_a_lease_that_was_deleted_may_still_be_held() -> None:
    """Its holder creates it again at its next renewal; another one waits as long as for a leader that is silent."""
    assert isinstance(decided(None, DURATION.total_seconds() - 0.1), Yield)
    assert isinstance(decided(None, DURATION.total_seconds()), Create)
    assert isinstance(decided(None, 0, replace(ME, leads=True)), Create)


def test_renewing_does_not_begin_a_term() -> None:
    mine = replace(OTHER, holder="me")
    found = decided(mine, 1, replace(ME, last_term=4, leads=True))
    assert found == Update(replace(mine, renewed_at=MOMENT))


def test_whoever_has_lost_it_for_a_moment_begins_another_term() -> None:
    """What it had on its way then must not count as written now."""
    found = decided(replace(OTHER, holder="me"), 0, replace(ME, last_term=4))
    assert isinstance(found, Update)
    assert (found.lease.holder, found.lease.transitions) == ("me", 5)


def test_only_a_change_of_the_lease_counts_and_no_clock_of_others() -> None:
    first = see(None, OTHER, 10.0)
    assert see(first, OTHER, 20.0) is first
    assert see(first, replace(OTHER, renewed_at="1999-01-01T00:00:00Z"), 20.0).since == 20.0


def test_a_leader_stops_before_the_others_begin() -> None:
    assert RENEW_WITHIN + 2 * RETRY < DURATION


SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=1)
)
FIELDS = ("holderIdentity", "leaseDurationSeconds", "leaseTransitions", "renewTime", "acquireTime")
SPECS: st.SearchStrategy[Any] = st.one_of(
    SCALARS,
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(FIELDS, SCALARS),
    ),
)


@given(SPECS, st.floats(0, 1000))
def test_whatever_somebody_wrote_it_is_read_and_never_holds_for_ever(spec: Any, after: float) -> None:
    lease = read({"spec": spec})
    assert timedelta(0) <= lease.duration <= timedelta(seconds=LONGEST_SECONDS)
    if after > LONGEST_SECONDS:
        assert isinstance(decided(lease, after), Update)


def test_it_is_read_as_it_is_written() -> None:
    full = replace(OTHER, acquired_at="before")
    assert read({"spec": render(full)}) == full


TERMS = st.integers(1, LAST_TERM)
NAMES = st.text("abc-_", max_size=4)


@given(TERMS, TERMS, NAMES, NAMES)
def test_of_two_marks_the_later_term_counts(mine: int, theirs: int, me: str, other: str) -> None:
    mark, epoch = epoch_of(theirs, other), epoch_of(mine, me)
    assert (term_of(mark), term_of(epoch)) == (theirs, mine)
    assert outranks(mark, epoch) is (theirs > mine or (theirs == mine and me != other))
    assert mark == epoch or outranks(mark, epoch) or outranks(epoch, mark), "one of them goes on"


@given(st.text() | st.sampled_from(["", "-a", "x-a", "0-a", f"{LAST_TERM + 1}-a", "٣-a", "9" * 5000]))
def test_what_is_no_mark_deposes_nobody(mark: str) -> None:
    assert term_of(mark) in range(LAST_TERM + 1)
    assert term_of(mark) > 0 or not outranks(mark, epoch_of(1, "a"))
