"""The failures of a rollout by reason, with what to do about each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from rich.console import Group, RenderableType

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.screens.formatting import BAD, NOTHING, facts, since, table

_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A node that failed, was rolled back or refused.

    Attributes:
        result: how its run ended; empty if it never began.
        reason: the reason in its task, or in the status of the NodeUpgrade.
        restarted: at most 20 of its containers that restarted or changed.
    """

    node: str
    reason: str
    result: str = ""
    wave: str = ""
    step: str = ""
    message: str = ""
    time: datetime | None = None
    restarted: tuple[str, ...] = ()

    @property
    def explanation(self) -> Reason | None:
        """What the reason means and what to do; None for a reason of a newer version."""
        return Reason(self.reason) if self.reason in set(Reason) else None

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


def by_reason(name: str, found: tuple[Failure, ...], now: datetime) -> RenderableType:
    """Draw failures grouped by reason."""
    return Group(*_parts(name, found, now))


def _parts(name: str, found: tuple[Failure, ...], now: datetime) -> Iterator[RenderableType]:
    yield Text(f"Failed or refused: {counted(len(found), 'node')} of {name}")
    for reason, group in groupby(found, key=lambda failure: failure.reason):
        nodes = tuple(group)
        yield Text()
        yield Text.assemble((reason or "(no reason given)", f"bold {BAD}"), f": {counted(len(nodes), 'node')}")
        if known := nodes[0].explanation:
            yield facts(("Means", known.meaning), ("Do", known.remedy))
        drawn = table("NODE", "RESULT", "WAVE", "STEP", "AGO", "MESSAGE", spare=("AGO", "WAVE", "STEP"))
        for each in nodes:
            message = each.message
            if each.restarted:
                message = f"{message.removesuffix('.')}; restarted: {', '.join(each.restarted)}"
            row = (each.node, each.result, each.wave, each.step)
            drawn.add_row(*(cell or NOTHING for cell in row), since(each.time, now), message)
        yield drawn


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
