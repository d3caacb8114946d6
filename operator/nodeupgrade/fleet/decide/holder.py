"""Which rollout holds a node: the only answer to that question.

The task of a node is the lock on it, and a slot holds its node even while its task is lost. A rollout that has ended or
is gone holds a node only while its run may be in progress there, or could not be rolled back.
"""

from dataclasses import dataclass

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.fleet.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Another rollout that holds a node."""

    upgrade: str  # name of the NodeUpgrade
    gone: bool = False  # whether it has ended or is gone, although its run is not over


def holder(fleet: FleetSnapshot, name: NodeName) -> Holder | None:
    """Return which other rollout holds a node; None if this one does, or if any may claim it."""
    upgrade, task = fleet.upgrade, fleet.tasks.get(name)
    if upgrade.status.slot(name) is not None:
        return None
    if (rival := next((each for each in fleet.rivals if each.status.slot(name) is not None), None)) is not None:
        return Holder(upgrade=rival.name)
    if (rival := _cordoned_by(fleet, name)) is not None:
        return Holder(upgrade=rival.name)
    marked = task is not None and _has_left_its_cordon(fleet, task)
    if task is None or (task.released and not marked):
        return None
    ref = task.spec.upgrade_ref
    if ref.uid == upgrade.uid:
        return None
    if ref.uid in fleet.active_upgrades:
        return Holder(upgrade=ref.name)
    return None if is_over(task) and not marked else Holder(upgrade=ref.name, gone=True)


def _cordoned_by(fleet: FleetSnapshot, name: NodeName) -> Upgrade | None:
    """Return the other rollout that has not ended and has cordoned the node; None if none has."""
    node = fleet.nodes.get(name)
    by = node.cordoned_by if node is not None and node.unschedulable else ""
    return next((rival for rival in fleet.rivals if rival.uid == by), None)


def _has_left_its_cordon(fleet: FleetSnapshot, task: Task) -> bool:
    """Report whether the node has the cordon of a task's rollout, which is gone; the sweep lifts it by the task."""
    node, uid = fleet.nodes.get(task.name), task.spec.upgrade_ref.uid
    return node is not None and node.unschedulable and node.cordoned_by == uid and uid not in fleet.active_upgrades


def is_over(task: Task) -> bool:
    """Report whether nothing happens on the node any more for a rollout that has ended or is gone."""
    return not could_not_roll_back(task) and (not task.open or task.reported.phase.terminal)


def could_not_roll_back(task: Task) -> bool:
    """Report whether a person must repair the node of a task."""
    judged = task.verdict is not None and task.verdict.outcome is Verdict.ROLLBACK_FAILED
    return judged or task.reported.phase is TaskPhase.ROLLBACK_FAILED
