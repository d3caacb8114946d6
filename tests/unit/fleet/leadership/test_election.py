"""Tests what a candidate decides from the Lease that it observes."""

from dataclasses import replace

import pytest

from nodeupgrade.fleet.leadership.election import (
    DURATION,
    RENEW_WITHIN,
    RETRY,
    Create,
    Update,
    Yield,
    observe,
    released,
)
from nodeupgrade.fleet.leadership.lease import read
from tests.builders.leases import ME, MOMENT, OTHER, decided


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
    first = observe(None, OTHER, 10.0)
    assert observe(first, OTHER, 20.0) is first
    assert observe(first, replace(OTHER, renewed_at="1999-01-01T00:00:00Z"), 20.0).since == 20.0


def test_a_leader_stops_before_the_others_begin() -> None:
    assert RENEW_WITHIN + 2 * RETRY < DURATION
