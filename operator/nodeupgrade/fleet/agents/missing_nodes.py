"""Nodes in flight whose Node object is gone: how long they are waited for, and their verdict in the end.

A kubelet that starts registers its Node again. Until then nothing can be learned about the run, and the slot is kept.
"""

from datetime import datetime

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.upgrade.strategy import Timeouts
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.fleet.snapshot import FleetSnapshot


def is_given_up(fleet: FleetSnapshot, slot: Slot, now: datetime) -> bool:
    """Report whether a missing node has been waited for long enough: ``timeouts.node``, and its own deadline."""
    if slot.missing_since is None:
        return False  # it is not on record yet since when
    task = fleet.own_task(slot.node)
    patience = Timeouts().node if fleet.upgrade.spec is None else fleet.upgrade.spec.timeouts.node
    ends = [slot.missing_since + patience]
    ends += [task.spec.deadline] if task is not None and task.spec.deadline is not None else []
    return now > max(ends)


def lost_verdict(task: Task, now: datetime) -> RunVerdict:
    """Return the verdict on the run of a node that did not come back."""
    return RunVerdict(
        run_id=task.spec.run_id,
        outcome=Verdict.FAILED,
        reason=Reason.NODE_LOST,
        message=_message(task.name),
        decided_at=now,
    )


def lost_failure(slot: Slot, now: datetime) -> NodeFailure:
    """Return what is put on record of a node that did not come back, and whose task is gone as well."""
    return NodeFailure(
        node=slot.node,
        reason=Reason.NODE_LOST.value,
        step="run",
        message=shorten(_message(slot.node), FAILURE_MESSAGE_LENGTH),
        time=now,
        uid=slot.uid,
        wave=slot.wave,
        outcome=Verdict.FAILED,
    )


def _message(name: NodeName) -> str:
    return sentence(Reason.NODE_LOST, f"node {name} was deleted during its run and has not registered again")
