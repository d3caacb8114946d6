"""Tests how a check is defined by a function."""

from collections.abc import Iterator

from nodeupgrade.findings.check import check
from nodeupgrade.findings.finding import Finding


@check()
def nothing_is_odd(numbers: tuple[int, ...]) -> Iterator[Finding]:
    """No number is odd,
    whatever it is.

    The rest is for who reads the code.
    """
    yield from ()


def test_a_check_is_named_and_explained_by_its_function() -> None:
    assert (nothing_is_odd.name, nothing_is_odd.room) == ("nothing_is_odd", __name__)
    assert nothing_is_odd.holds == "No number is odd, whatever it is."
