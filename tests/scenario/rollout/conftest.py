"""Whatever is planned in these tests is checked.

A node that gives its slot back does not take it in the same plan; and a plan that goes on once pods have been read is
the one that would be made anew.
"""

from datetime import datetime

import pytest

from nodeupgrade.fleet.actions import Admit, FreeSlot
from nodeupgrade.fleet.controllers import rollout_controller
from nodeupgrade.fleet.decide.planner import Plan, plan
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot


def checked_plan(fleet: FleetSnapshot, now: datetime, seen: RolloutView | None = None) -> Plan:
    """Plan, compare who is freed and admitted, and compare it with a new plan."""
    planned = plan(fleet, now, seen)
    assert seen is None or planned == plan(fleet, now)
    freed, admitted = ({each.node for each in planned.actions if isinstance(each, kind)} for kind in (FreeSlot, Admit))
    assert not freed & admitted
    return planned


@pytest.fixture(autouse=True)
def plans_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every operator in these tests plan so."""
    monkeypatch.setattr(rollout_controller, "plan", checked_plan)
