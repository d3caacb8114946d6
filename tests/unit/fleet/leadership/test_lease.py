"""Tests how Leases are read and written, whatever they contain."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.fleet.leadership.election import Update
from nodeupgrade.fleet.leadership.lease import LONGEST_SECONDS, read, render
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
