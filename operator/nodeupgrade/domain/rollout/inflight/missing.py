"""Nodes in flight whose Node object is gone: how long they are waited for, and what is put on record in the end.

A kubelet that starts registers its Node again. Until then nothing can be learned about the run, and the slot is kept.
"""

import hashlib
from collections.abc import Collection, Iterable
from datetime import datetime

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH
from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import TaskAction, Verdict
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import MissingNodes, NodeFailure
from nodeupgrade.api.upgrade.strategy import Timeouts
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.failures import uid_kept
from nodeupgrade.domain.rollout.inflight.agent_lifecycle import is_untouched
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot


def may_be_running(fleet: FleetSnapshot, name: NodeName) -> bool:
    """Report whether a node without a Node object may have a run of which no verdict is known.

    The task is usually deleted together with the Node; then only the slot is left to tell of the run.
    """
    if name in fleet.nodes or name in fleet.unreadable:
        return False
    if (task := fleet.own_task(name)) is None:
        spec = fleet.upgrade.spec
        return name in fleet.upgrade.status.in_flight and (spec is None or spec.action is not RolloutAction.PLAN)
    begun = task.open and task.spec.action is not TaskAction.PRECHECK and task.kind is RunKind.UPGRADE
    return begun and not is_untouched(task)


def missing(fleet: FleetSnapshot, slots: Collection[NodeName], now: datetime) -> MissingNodes | None:
    """Return what the status says of missing nodes once these nodes are in flight; None if none is missing."""
    every = _missing(fleet)
    left = [name for name in every if name in slots]
    if not left:
        return None
    before = fleet.upgrade.status.missing
    since = before.since if before is not None and before.names == _digest(every) else now
    return MissingNodes(nodes=len(left), since=since, names=_digest(left))


def is_given_up(fleet: FleetSnapshot, name: NodeName, now: datetime) -> bool:
    """Report whether a missing node has been waited for long enough: ``timeouts.node``, and its own deadline."""
    before, task = fleet.upgrade.status.missing, fleet.own_task(name)
    if before is None or before.names != _digest(_missing(fleet)):
        return False  # it is not on record yet since when
    patience = Timeouts().node if fleet.upgrade.spec is None else fleet.upgrade.spec.timeouts.node
    ends = [before.since + patience]
    ends += [task.spec.deadline] if task is not None and task.spec.deadline is not None else []
    return now > max(ends)


def lost(fleet: FleetSnapshot, name: NodeName, wave: str, now: datetime) -> NodeFailure:
    """Return what is put on record of a node that did not come back."""
    task = fleet.own_task(name)
    because = f"node {name} was deleted during its run and has not registered again"
    return NodeFailure(
        node=name,
        reason=Reason.NODE_LOST.value,
        step="run",
        message=sentence(Reason.NODE_LOST, because)[:FAILURE_MESSAGE_LENGTH],
        time=now,
        uid="" if task is None else uid_kept(task.spec.node_uid),
        wave=wave if task is None else task.spec.wave,
        outcome=Verdict.FAILED,
    )


def _missing(fleet: FleetSnapshot) -> list[NodeName]:
    names = {*fleet.upgrade.status.in_flight, *(name for name, task in fleet.tasks.items() if task.open)}
    ours = (name for name in names if name in fleet.upgrade.status.in_flight or fleet.own_task(name) is not None)
    return sorted(name for name in ours if may_be_running(fleet, name))


def _digest(names: Iterable[NodeName]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
