"""Tests for the budget of the whole cluster."""

import pytest

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.fleet.cluster_budget import ClusterBudget


def limit(value: int | str | None) -> IntOrPercent | None:
    return None if value is None else IntOrPercent.parse(value)


@pytest.mark.parametrize(
    ("in_flight", "unavailable", "left"),
    [
        (None, None, None),
        (10, None, 7),
        (None, 10, 5),
        (10, 10, 5),
        (6, 10, 3),
        ("10%", None, 17),
        (None, "1%", 0),
        ("1%", "100%", 0),
        (0, None, 0),
        (None, "0%", 0),
        (3, None, 0),
        (2, None, 0),
    ],
)
def test_the_tighter_limit_counts(in_flight: int | str | None, unavailable: int | str | None, left: int | None) -> None:
    budget = ClusterBudget(max_in_flight=limit(in_flight), max_unavailable=limit(unavailable))
    assert budget.room(nodes=200, in_flight=3, unavailable=5) == left


def test_a_percentage_of_few_nodes_is_one_node() -> None:
    budget = ClusterBudget(max_in_flight=limit("10%"))
    assert budget.room(nodes=3, in_flight=0, unavailable=3) == 1
