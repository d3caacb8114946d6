"""Nodes in flight of which nothing conclusive is heard: a machine that died keeps its agent pod "Running"."""

from datetime import datetime, timedelta

from nodeupgrade.api.encoding.json import timestamp
from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout.select.membership import in_flight
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

IMPEDED_AFTER = timedelta(minutes=5)
"""How long after its deadline, at which it is asked to roll back, a node is told of."""

STALLED_AFTER = timedelta(minutes=15)
"""How long after its deadline a person is needed."""


def overdue(fleet: FleetSnapshot, now: datetime, after: timedelta = IMPEDED_AFTER) -> tuple[Finding, ...]:
    """Return a finding for each node in flight whose run is not over so long after its deadline, sorted by node."""
    found = list[Finding]()
    for name in in_flight(fleet):
        task = fleet.own_task(name)
        if task is None or not task.open or (deadline := task.spec.deadline) is None or now <= deadline + after:
            continue
        because = f"node {name} should have ended its run by {timestamp(deadline)} and still reports "
        because += task.reported.phase.value if task.status.run_id == task.spec.run_id else "nothing"
        message = sentence(Reason.NODE_OVERDUE, because)
        found.append(Finding(reason=Reason.NODE_OVERDUE, subject=name, detail=message, remedy=""))
    return tuple(found)
