"""What is counted: pure functions from objects and decisions to numbers."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.domain.rollout.actions import Judge, NodeAction

_ROLLED_BACK = frozenset({Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that are counted together; ``phase`` is the verdict where there is one, else what the node reports."""

    upgrade: str
    wave: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """One finished run.

    Attributes:
        down_seconds: how long the node was without a healthy kubelet; None if the kubelet was never stopped.
        rewritten: containers whose stored hash was rewritten.
        restarted: containers that were restarted.
        flapped: pods that were reported unready although their containers ran on, at most 20 of them.
        rolled_back: why the run was undone, if it was.
    """

    down_seconds: float | None
    rewritten: int
    restarted: int
    flapped: int
    rolled_back: Reason | None


def group_nodes(tasks: Iterable[Task], upgrades: Collection[str]) -> Mapping[NodeGroup, int]:
    """Count the nodes that are claimed by these NodeUpgrades, given by UID."""
    mine = (task for task in tasks if task.spec.upgrade_ref.uid in upgrades)
    return Counter(
        NodeGroup(upgrade=task.spec.upgrade_ref.name, wave=task.spec.wave, phase=_phase(task)) for task in mine
    )


def finished_runs(applied: Iterable[NodeAction]) -> Iterator[RunFigures]:
    """Find the runs that were judged; a verdict is written once, so whoever wrote it counts the run once.

    Looks that were not to touch anything (``action: Plan``) are no runs.
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
    """Whether no further node is started because somebody, or the failure threshold, said so."""
    asked = upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE
    stalled = any(
        condition.status == "True" and condition.reason == Reason.FAILURE_THRESHOLD_REACHED
        for condition in upgrade.status.conditions
    )
    return asked or upgrade.braked or stalled


def _phase(task: Task) -> str:
    return task.reported.phase.value if task.verdict is None else task.verdict.outcome.value
