"""Nodes that failed, were rolled back or refused: those in tasks, and those that only the status has."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.check_catalogue import ROLLOUT_CHECKS

_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})
_CHECKS = {reason.value: check.name for check in ROLLOUT_CHECKS for reason in check.reasons if not check.warns}
"""The control plane's checks by the reason of their findings, which no two of them share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that failed, was rolled back or refused."""

    node: str
    reason: str  # the reason in its task, or in the status of the NodeUpgrade
    result: str = ""  # how its run ended; empty if it never began
    wave: str = ""
    step: str = ""
    check: str = ""  # name of the check that refused it; empty if none did, or if that is not known
    message: str = ""
    time: datetime | None = None
    restarted: tuple[str, ...] = ()  # at most 20 of its containers that restarted or changed

    @property
    def explanation(self) -> Reason | None:
        """What the reason means and what to do; None for a reason of a newer version."""
        return known_reason(self.reason)

    def document(self) -> Json:
        """Return it as JSON."""
        known = self.explanation
        return {**to_json(self), "meaning": known and known.meaning, "remedy": known and known.remedy}


def failures(upgrade: Upgrade, tasks: Iterable[Task]) -> tuple[Failure, ...]:
    """List all failures: those in tasks, and those that only the status has."""
    ours = [task for task in tasks if task.spec.upgrade_ref.uid == upgrade.uid]
    found = {task.name: failure for task in ours if (failure := _of_task(task)) is not None}
    for listed in upgrade.status.failures:
        step = listed.step or ""
        entry = Failure(
            node=listed.node,
            reason=listed.reason,
            step=step,
            check="" if listed.outcome else _CHECKS.get(listed.reason, ""),
            message=listed.message,
            time=listed.time,
        )
        by_task = found.setdefault(NodeName(listed.node), entry)
        if not by_task.step:
            found[NodeName(listed.node)] = replace(by_task, step=step)
    return tuple(sorted(found.values(), key=lambda failure: (failure.reason, failure.node)))


def _of_task(task: Task) -> Failure | None:
    verdict = task.verdict
    if verdict is None or verdict.outcome in _GOOD:
        return None
    return Failure(
        node=task.name,
        reason=verdict.reason.value,
        result=verdict.outcome.value,
        wave=task.spec.wave,
        step=task.reported.failed_step,
        check=found_by(task),
        message=verdict.message,
        time=verdict.decided_at,
        restarted=verdict.restarted_list,
    )


def found_by(task: Task) -> str:
    """Return the name of the check by which an agent refused a node; empty if none did, or if that is not known."""
    verdict = task.verdict
    if verdict is None or verdict.outcome is not Verdict.REFUSED:
        return ""
    forbidding = (each for each in task.reported.hazards if not each.warning and each.reason == verdict.reason.value)
    return next((each.check for each in forbidding), "")
