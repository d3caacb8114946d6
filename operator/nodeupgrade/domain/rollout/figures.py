"""Figures for metrics: pure functions from objects and actions to numbers."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction, Verdict, began_at
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import Judge, NodeAction

_ROLLED_BACK = frozenset({Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """A group of nodes counted together; ``phase`` is the verdict if there is one, else the phase the node reports."""

    upgrade: str
    wave: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """One finished run."""

    down_seconds: float | None  # how long the node was without a healthy kubelet; None if the kubelet was never stopped
    rewritten: int  # containers whose stored hash was rewritten
    restarted: int  # containers that were restarted
    flapped: int  # pods that were reported unready although their containers kept running; at most 20 are counted
    rolled_back: Reason | None  # why the run was rolled back; None if it was not


def group_nodes(tasks: Iterable[Task], upgrades: Collection[str]) -> Mapping[NodeGroup, int]:
    """Count the nodes claimed by these NodeUpgrades (UIDs), by group."""
    mine = (task for task in tasks if task.spec.upgrade_ref.uid in upgrades)
    return Counter(
        NodeGroup(upgrade=task.spec.upgrade_ref.name, wave=task.spec.wave, phase=_phase(task)) for task in mine
    )


def flights(upgrade: Upgrade, tasks: Mapping[NodeName, Task], now: datetime) -> dict[NodeName, timedelta]:
    """Return how long each node in flight has been so, the longest first; one whose run has not begun is left out."""
    flying = (tasks[name] for name in upgrade.status.in_flight if name in tasks)
    since = {
        task.name: began_at(task.spec.run_id)
        for task in flying
        if task.spec.upgrade_ref.uid == upgrade.uid and task.spec.action is not TaskAction.WAIT
    }
    lasting = ((name, now - began) for name, began in since.items() if began is not None)
    return dict(sorted(lasting, key=lambda flight: flight[1], reverse=True))


def stored_hashes(tasks: Iterable[Task]) -> Mapping[str, int]:
    """Add up the running containers by the kubelet that computes their hash, as each node has counted them last.

    An earlier run's count is as true as its time is recent, so it counts until there is another one.
    """
    return sum((task.status.hashes.counted for task in tasks if task.status.hashes is not None), Counter[str]())


def finished_runs(applied: Iterable[NodeAction]) -> Iterator[RunFigures]:
    """Yield the runs that received their verdict; a verdict is written once, so each run is counted once.

    Prechecks (``action: Plan``) are not runs.
    """
    for action in applied:
        if isinstance(action, Judge) and action.verdict.outcome is not Verdict.PRECHECKED:
            report, verdict = action.task.reported, action.verdict
            yield RunFigures(
                down_seconds=report.kubelet.down_seconds,
                rewritten=report.containers.rewritten,
                restarted=max(verdict.restarted, report.containers.restarted),
                flapped=len(report.containers.readiness_flaps),
                rolled_back=verdict.reason if verdict.outcome in _ROLLED_BACK else None,
            )


def is_paused(upgrade: Upgrade) -> bool:
    """Report whether the rollout is paused: by its action, by annotation, or by the failure threshold."""
    requested = upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE
    stalled = any(
        condition.status == "True" and condition.reason == Reason.FAILURE_THRESHOLD_REACHED
        for condition in upgrade.status.conditions
    )
    return requested or upgrade.braked or stalled


def _phase(task: Task) -> str:
    return task.reported.phase.value if task.verdict is None else task.verdict.outcome.value
