"""Nodes that failed, were rolled back or refused: those in tasks, and those that only the status has."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName, Verdict

_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that failed, was rolled back or refused."""

    node: str
    reason: str  # the reason in its task, or in the status of the NodeUpgrade
    result: str = ""  # how its run ended; empty if it never began
    wave: str = ""
    step: str = ""
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
        entry = Failure(node=listed.node, reason=listed.reason, step=step, message=listed.message, time=listed.time)
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
        message=verdict.message,
        time=verdict.decided_at,
        restarted=verdict.restarted_list,
    )
