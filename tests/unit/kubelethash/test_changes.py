"""Tests which kubelets belong to which era."""

import pytest

from nodeupgrade.kubelethash import NEWEST_MINOR, Era, era_of


@pytest.mark.parametrize(
    ("first", "last", "era"),
    [(5, 5, Era.A), (6, 15, Era.B), (16, 30, Era.C), (31, NEWEST_MINOR, Era.D)],
)
def test_eras_begin_and_end_with_minors(first: int, last: int, era: Era) -> None:
    assert {era_of(f"1.{minor}.99+vendor") for minor in range(first, last + 1)} == {era}
