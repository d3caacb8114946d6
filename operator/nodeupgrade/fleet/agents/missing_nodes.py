"""Nodes in flight whose Node object is gone: how long they are waited for, and what is put on record in the end.

A kubelet that starts registers its Node again. Until then nothing can be learned about the run, and the slot is kept.
"""

from datetime import datetime

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, shorten, stored_uid
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.status import MissingNodes, NodeFailure
from nodeupgrade.api.upgrade.strategy import Timeouts
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.fleet.snapshot import FleetSnapshot


def is_given_up(fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
    """Report whether a missing node has been waited for long enough: ``timeouts.node``, and its own deadline."""
    before, task = fleet.upgrade.status.missing, fleet.own_task(name)
    if before is None or before.names != MissingNodes.digest(fleet.missing):
        return False  # it is not on record yet since when
    patience = Timeouts().node if fleet.upgrade.spec is None else fleet.upgrade.spec.timeouts.node
    ends = [before.since + patience]
    ends += [task.spec.deadline] if task is not None and task.spec.deadline is not None else []
    return now > max(ends)


def lost_node_failure(fleet: FleetSnapshot, name: NodeName, wave: str, now: datetime) -> NodeFailure:
    """Return what is put on record of a node that did not come back."""
    task = fleet.own_task(name)
    because = f"node {name} was deleted during its run and has not registered again"
    return NodeFailure(
        node=name,
        reason=Reason.NODE_LOST.value,
        step="run",
        message=shorten(sentence(Reason.NODE_LOST, because), FAILURE_MESSAGE_LENGTH),
        time=now,
        uid="" if task is None else stored_uid(task.spec.node_uid),
        wave=wave if task is None else task.spec.wave,
        outcome=Verdict.FAILED,
    )
