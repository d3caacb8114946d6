"""Tests that every check is shown on a real node, or that the reason why not is given."""

from e2e.preflight.shown import NOT_SHOWN, SHOWN
from nodeupgrade.check_catalogue import ALL_CHECKS


def test_every_check_is_shown_on_a_real_node_or_it_is_said_why_not() -> None:
    assert {*SHOWN, *NOT_SHOWN} == {one.name for one in ALL_CHECKS}
    assert SHOWN.keys() & NOT_SHOWN.keys() == set()
