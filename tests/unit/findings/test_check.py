"""Tests how a check is defined by a function."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
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


def test_a_finding_under_another_reason_is_no_warning_because_the_reasons_of_its_check_are() -> None:
    @check(Reason.CORDON_REMOVES_TRAFFIC)
    def traffic_stays(number: int) -> Finding | str:
        """Traffic stays."""
        return "it goes" if number else Finding(reason=Reason.UNSUPPORTED_NODE, detail="there is none")

    (expected,), (other,) = traffic_stays(1), traffic_stays(0)
    assert traffic_stays.warns
    assert not expected.forbids
    assert other.forbids
