"""Tests for the list of failpoints."""

from nodeupgrade.node.failpoints.failpoints import FAILPOINTS


def test_names_are_unique() -> None:
    assert len(set(FAILPOINTS)) == len(FAILPOINTS)
