"""What is known of a rollout whatever its spec says: slots, tasks, failures, what impedes nodes in flight.

It is made of a snapshot once, in one pass over the tasks; what counts or limits nodes reads it and not the snapshot.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType, NodeFailure, Slot
from nodeupgrade.api.values import NodeName, RunKind
from nodeupgrade.api.wording import sentence
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet import failures
from nodeupgrade.fleet.actions import FreeSlot, Wait
from nodeupgrade.fleet.cluster_budget import ClusterUse
from nodeupgrade.fleet.health.checks import HealthReading
from nodeupgrade.fleet.setbacks import LostAgents
from nodeupgrade.fleet.snapshot import FleetSnapshot

IMPEDED_AFTER = timedelta(minutes=5)
"""How long after its deadline, at which it is asked to roll back, a node is reported."""

_HINDERING = frozenset(
    {
        Reason.AGENT_UNAVAILABLE,
        Reason.ARTIFACT_UNAVAILABLE,
        Reason.WRITE_REFUSED,
        Reason.NODE_NOT_FOUND,
        Reason.OBJECT_UNREADABLE,
        Reason.TASK_LOST,
    }
)
"""Reasons for which a node in flight that waits makes no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What is known of a rollout at one moment."""

    upgrade: Upgrade
    now: datetime  # that moment, UTC
    slots: Mapping[NodeName, Slot]  # sorted by name, with the times since when their Nodes are missing
    tasks: tuple[Task, ...]  # all tasks of the rollout, whatever has become of their Nodes
    lost_tasks: tuple[Task, ...]  # those whose Nodes are gone or were replaced, as far as both can be read
    idle_claims: tuple[Task, ...]  # those by which the rollout holds nodes and whose runs never began, sorted by name
    unreadable: frozenset[NodeName]  # nodes of which it is unknown what they are, see ``FleetSnapshot.unreadable``
    flying_tasks: tuple[Task, ...]  # those of the nodes in flight, sorted by name
    failures: tuple[NodeFailure, ...]  # all that count until a retry, see ``failures_of``
    last_judged: datetime | None  # see ``failures.last_judged``
    impeded_by: tuple[Finding, ...]  # see ``impediments``
    waiting_for: Mapping[NodeName, Wait | FreeSlot]  # what reconciled nodes in flight wait for
    rivals: tuple[Upgrade, ...]  # the other NodeUpgrades that have not ended
    cluster: ClusterUse | None  # what limits all rollouts together; None if nothing does
    health: Mapping[str, HealthReading]  # by name of the health check
    guard_obstacle: str | None  # why nodes cannot be guarded; None if they can


def ledger_of(fleet: FleetSnapshot, now: datetime) -> Ledger:
    """Return what a snapshot shows of its rollout."""
    upgrade, own, lost, idle = fleet.upgrade, fleet.own_tasks, list[Task](), list[Task]()
    for task in own:
        node = fleet.nodes.get(task.name)
        replaced = node is not None and node.uid != task.spec.node_uid
        if (node is None or replaced) and task.name not in fleet.unreadable:
            lost.append(task)
        if not replaced and _is_idle(task):
            idle.append(task)
    flying = tuple(each for name in fleet.slots if (each := fleet.own_task(name)) is not None)
    retry = upgrade.status.last_handled_retry if fleet.retried is None else fleet.retried
    return Ledger(
        upgrade=upgrade,
        now=now,
        slots={name: _with_absence(slot, now, missing=fleet.is_missing(name)) for name, slot in fleet.slots.items()},
        tasks=own,
        lost_tasks=tuple(lost),
        idle_claims=tuple(sorted(idle, key=lambda task: task.name)),
        unreadable=frozenset(fleet.unreadable),
        flying_tasks=flying,
        failures=failures.failures_of(upgrade.status, own, retry),
        last_judged=failures.last_judged(own),
        impeded_by=impediments(fleet, flying, now),
        waiting_for=fleet.waiting,
        rivals=fleet.rivals,
        cluster=_cluster_use(fleet),
        health=fleet.health,
        guard_obstacle=fleet.guard_obstacle,
    )


def _is_idle(task: Task) -> bool:
    action = task.spec.action
    waits = action is TaskAction.WAIT or (task.kind is RunKind.PRECHECK and action is not TaskAction.RELEASE)
    return waits and not task.open


def _with_absence(slot: Slot, now: datetime, *, missing: bool) -> Slot:
    if missing is (slot.missing_since is not None):
        return slot
    return replace(slot, missing_since=now if missing else None)


def _cluster_use(fleet: FleetSnapshot) -> ClusterUse | None:
    if fleet.cluster_budget.unlimited:
        return None
    runs = (task.name for task in fleet.tasks.values() if task.open and not task.reported.phase.terminal)
    return ClusterUse(
        budget=fleet.cluster_budget,
        nodes=len(fleet.nodes),
        flying=frozenset((*runs, *(slot.node for rival in fleet.rivals for slot in rival.status.in_flight))),
        away=frozenset(name for name, node in fleet.nodes.items() if node.unschedulable or not node.ready),
    )


def impediments(fleet: FleetSnapshot, flying: Iterable[Task], now: datetime) -> tuple[Finding, ...]:
    """Return one finding per node in flight that makes no progress, sorted by node; silence is the last to count.

    Until all nodes in flight have been examined, what the condition said before remains.
    """
    waits = [fleet.waiting[name] for name in fleet.slots if name in fleet.waiting]
    by_node = {
        action.node: Finding(reason=action.reason, subject=action.node, detail=action.message, remedy="")
        for action in waits
        if isinstance(action, Wait) and action.reason in _HINDERING
    }
    for (node, _), setback in sorted(fleet.setbacks.items(), key=lambda item: (item[0][0], item[1].since)):
        by_node.setdefault(node, setback.finding(node))
    ended_early = (fleet.agents_lost.get(task.name, LostAgents()).finding(task) for task in flying)
    for finding in (*filter(None, ended_early), *overdue(flying, now)):
        by_node.setdefault(NodeName(finding.subject), finding)
    before = fleet.upgrade.status.condition(ConditionType.IMPEDED)
    if by_node or len(waits) == len(fleet.slots) or before.status is not ConditionStatus.TRUE:
        return tuple(by_node[node] for node in sorted(by_node))
    return (Finding(reason=known_reason(before.reason) or Reason.FAILED, detail=before.message, remedy=""),)


def overdue(tasks: Iterable[Task], now: datetime, after: timedelta = IMPEDED_AFTER) -> tuple[Finding, ...]:
    """Return a finding for each node in flight whose run is not over ``after`` its deadline."""
    due = ((task, task.spec.deadline) for task in tasks if task.open)
    return tuple(_overdue(task, end) for task, end in due if end is not None and now > end + after)


def _overdue(task: Task, deadline: datetime) -> Finding:
    because = f"node {task.name} should have ended its run by {timestamp(deadline)} and still reports "
    because += task.reported.phase.value if task.has_reported else "nothing"
    message = sentence(Reason.NODE_OVERDUE, because)
    return Finding(reason=Reason.NODE_OVERDUE, subject=task.name, detail=message, remedy="")
