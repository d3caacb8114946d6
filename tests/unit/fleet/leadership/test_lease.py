"""Tests how Leases are read and written, whatever they contain, and the order of terms."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.fleet.leadership.election import Update
from nodeupgrade.fleet.leadership.lease import LAST_TERM, LONGEST_SECONDS, epoch_of, read, render, supersedes, term_of
from tests.builders.leases import OTHER, decided

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
    assert supersedes(mark, epoch) is (theirs > mine or (theirs == mine and me != other))
    assert mark == epoch or supersedes(mark, epoch) or supersedes(epoch, mark), "one of them goes on"


@given(st.text() | st.sampled_from(["", "-a", "x-a", "0-a", f"{LAST_TERM + 1}-a", "٣-a", "9" * 5000]))
def test_what_is_no_mark_deposes_nobody(mark: str) -> None:
    assert term_of(mark) in range(LAST_TERM + 1)
    assert term_of(mark) > 0 or not supersedes(mark, epoch_of(1, "a"))
