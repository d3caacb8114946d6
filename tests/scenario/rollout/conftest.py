"""Every plan is made twice: as the operator makes it, and by somebody who remembers nothing."""

from datetime import datetime

import pytest

from nodeupgrade.domain.rollout.actions import Admit, FreeSlot, NodeAction
from nodeupgrade.domain.rollout.planner import Notes, advance_in_flight, plan
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout import reconcile


def checked_plan(fleet: FleetSnapshot, now: datetime, notes: Notes) -> tuple[NodeAction, ...]:
    """What is remembered changes nothing, nodes in flight advance alone as they do in the whole, and none begins anew.

    A node that gives its slot back takes it again in a later plan at the earliest, which has read that it did.
    """
    planned = plan(fleet, now, notes)
    assert planned == plan(fleet, now)
    freed, admitted = ({each.node for each in planned if isinstance(each, kind)} for kind in (FreeSlot, Admit))
    assert not freed & admitted
    alone = [action for action in advance_in_flight(fleet, now) if not isinstance(action, FreeSlot)]
    assert [action for action in alone if action not in planned] == []
    return planned


@pytest.fixture(autouse=True)
def plans_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every operator in these tests plan so."""
    monkeypatch.setattr(reconcile, "plan", checked_plan)
