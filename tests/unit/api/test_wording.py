"""Tests where the remedy stands in a message."""

from nodeupgrade.api.wording import LONG, with_remedy


def test_a_remedy_follows_a_short_cause_and_precedes_a_long_one() -> None:
    cause = "x" * LONG
    assert with_remedy(cause, "repair it") == f"{cause}; repair it."
    assert with_remedy(f"{cause}y", "repair it") == f"repair it: {cause}y."
