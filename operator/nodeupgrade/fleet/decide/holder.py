"""Which rollout holds a node: the only answer to that question.

The task of a node is the lock on it, and a slot holds its node even while its task is lost. A rollout that has ended or
is gone holds a node only while its run may be in progress there, or could not be rolled back.
"""

from dataclasses import dataclass
from enum import StrEnum

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.fleet.snapshot import FleetSnapshot


class HeldBy(StrEnum):
    """Who holds a node."""

    NOBODY = "Nobody"
    """Any rollout may claim it."""
    OURS = "Ours"
    """This rollout, possibly for an earlier Node of the same name."""
    RIVAL = "Rival"
    """Another rollout that has not ended."""
    GONE = "Gone"
    """A rollout that has ended or is gone, and whose run is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The holder of a node."""

    by: HeldBy
    upgrade: str = ""  # name of the NodeUpgrade; empty if nobody holds the node

    @property
    def other(self) -> bool:
        """Whether another rollout holds the node."""
        return self.by in {HeldBy.RIVAL, HeldBy.GONE}


def holder(fleet: FleetSnapshot, name: NodeName) -> Holder:
    """Return which rollout holds a node."""
    upgrade, task = fleet.upgrade, fleet.tasks.get(name)
    if upgrade.status.slot(name) is not None:
        return Holder(by=HeldBy.OURS, upgrade=upgrade.name)
    if (rival := next((each for each in fleet.rivals if each.status.slot(name) is not None), None)) is not None:
        return Holder(by=HeldBy.RIVAL, upgrade=rival.name)
    if (rival := _cordoned_by(fleet, name)) is not None:
        return Holder(by=HeldBy.RIVAL, upgrade=rival.name)
    marked = task is not None and _has_left_its_cordon(fleet, task)
    if task is None or (task.released and not marked):
        return Holder(by=HeldBy.NOBODY)
    ref = task.spec.upgrade_ref
    if ref.uid == upgrade.uid:
        return Holder(by=HeldBy.OURS, upgrade=ref.name)
    if ref.uid in fleet.active_upgrades:
        return Holder(by=HeldBy.RIVAL, upgrade=ref.name)
    over = is_over(task) and not marked
    return Holder(by=HeldBy.NOBODY) if over else Holder(by=HeldBy.GONE, upgrade=ref.name)


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
