"""Growth: one node first, more with each round of successes, one again after a failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.upgrade.strategy import Growth, GrowthType
from nodeupgrade.fleet.decide.budgets import grown

LINEAR = Growth(type=GrowthType.LINEAR, factor=2)
DOUBLING = Growth(type=GrowthType.EXPONENTIAL, factor=2)


@pytest.mark.parametrize(
    ("growth", "widths"),
    [
        (Growth(), [10] * 12),
        (LINEAR, [1, 3, 3, 3, 5, 5, 5, 5, 5, 7, 7, 7]),
        (DOUBLING, [1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8]),
        (Growth(type=GrowthType.EXPONENTIAL, cap=IntOrPercent(3)), [1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3]),
        (
            Growth(type=GrowthType.LINEAR, factor=1, cap=IntOrPercent(40, percent=True)),
            [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4],
        ),
    ],
    ids=["fixed", "linear", "exponential", "capped", "capped by percent"],
)
def test_rounds(growth: Growth, widths: list[int]) -> None:
    assert [grown(growth, 10, [True] * number) for number in range(12)] == widths


def test_a_failure_begins_anew() -> None:
    assert grown(DOUBLING, 100, [True] * 7) == 8
    assert grown(DOUBLING, 100, [*[True] * 7, False]) == 1
    assert grown(DOUBLING, 100, [*[True] * 7, False, True]) == 2


@given(
    growth=st.builds(Growth, type=st.sampled_from(GrowthType), factor=st.integers(1, 5)),
    limit=st.integers(1, 100),
    outcomes=st.lists(st.booleans(), max_size=200),
)
def test_it_stays_between_one_and_the_limit(growth: Growth, limit: int, outcomes: list[bool]) -> None:
    assert 1 <= grown(growth, limit, outcomes) <= limit
