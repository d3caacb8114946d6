"""Tests the order of leadership terms."""

from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.fleet.leadership.lease import LAST_TERM, epoch_of, supersedes, term_of

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
