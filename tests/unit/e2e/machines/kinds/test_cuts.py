"""Tests how failpoints are spread over a run."""

from e2e.machines.kinds.cuts import spread
from nodeupgrade.node.failpoints.failpoints import Failpoint


def test_places_are_spread_over_the_run_with_both_its_ends() -> None:
    found = [Failpoint(str(number)) for number in range(10)]
    assert spread(found, 4) == ["0", "3", "6", "9"]
    assert spread(found, 20) == found
