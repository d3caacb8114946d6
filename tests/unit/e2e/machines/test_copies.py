"""Tests at which failpoints the power is cut."""

from e2e.faults.run import on_the_way_back
from e2e.machines.copies import FORWARD
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, When, at


def test_the_power_is_cut_at_every_place_of_a_run_but_not_on_a_way_back() -> None:
    back = {name for name in FAILPOINTS if on_the_way_back(name)}
    assert set(FORWARD) == set(FAILPOINTS) - back
    assert len(FORWARD) == len(set(FORWARD))
    steps = tuple(Step)
    assert (FORWARD[0], FORWARD[-1]) == (at(steps[0], When.ANNOUNCED), at(steps[-1], When.DONE))
