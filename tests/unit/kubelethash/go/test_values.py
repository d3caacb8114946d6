"""Numbers of manifests, as Go has them in JSON."""

import pytest

from nodeupgrade.kubelethash.errors import Misfit
from nodeupgrade.kubelethash.go.values import json_number, resource_quantity


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.5, "0.5"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (1e-10, "1e-10"),
        (1e21, "1e+21"),
        (2.5, "2.5"),
        (-1e20, "-100000000000000000000"),
    ],
)
def test_a_number_is_written_as_by_go(value: float, written: str) -> None:
    assert json_number(value) == written


def test_a_fraction_is_a_quantity() -> None:
    assert resource_quantity(0.5) == resource_quantity("0.5")
    with pytest.raises(Misfit):
        resource_quantity(float("inf"))
