"""A rollout as a tree: its waves, their nodes as far as they matter now, and the steps of nodes in flight."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import StepResult, StepStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.upgrade.status import WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.cli.reports.overview import Overview

_AT_WORK = frozenset({StepResult.DOING, StepResult.UNDOING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line of the tree."""

    name: str
    state: str  # phase, state or result, in the API's own word
    took: timedelta | None = None  # how long it has taken, or takes so far; None if it has not begun
    wave: WaveStatus | None = None  # numbers to draw a bar from; None for nodes and steps
    about: str = ""  # what else there is to say, in words
    branches: tuple["Branch", ...] = ()


def tree(seen: Overview, now: datetime, *, whole: bool = False) -> tuple[Branch, ...]:
    """Return the waves with their nodes in flight and their latest failures; ``whole`` adds all nodes and steps."""
    failed = (failure.node for failure in seen.status.failures)
    names = dict.fromkeys((*seen.status.flying, *failed, *(sorted(seen.tasks) if whole else ())))
    by_wave: dict[str, list[Branch]] = {}
    for name in names:
        task = seen.tasks.get(name)
        wave = REMAINDER if task is None else task.spec.wave or REMAINDER
        flying = name in seen.status.flying
        by_wave.setdefault(wave, []).append(_node(name, task, now, flying=flying, whole=whole))
    known = {wave.name for wave in seen.status.waves}
    others = (WaveStatus(name=name) for name in by_wave if name not in known)
    return tuple(_wave(each, tuple(by_wave.get(each.name, ())), now) for each in (*seen.status.waves, *others))


def _wave(wave: WaveStatus, nodes: tuple[Branch, ...], now: datetime) -> Branch:
    numbers = ((wave.failed, "failed"), (wave.refused, "refused"), (wave.skipped, "skipped"))
    about = [f"{number} {word}" for number, word in numbers if number]
    if wave.approved_by:
        about.append(f"approved by {wave.approved_by}")
    took = _took(wave.started_at, wave.completed_at or now)
    return Branch(name=wave.name, state=wave.state.value, took=took, wave=wave, about=", ".join(about), branches=nodes)


def _node(name: str, task: Task | None, now: datetime, *, flying: bool, whole: bool) -> Branch:
    if task is None:
        return Branch(name=name, state="Admitted" if flying else "Refused")
    report, verdict = task.reported, task.verdict
    waiting = task.spec.action is TaskAction.WAIT and not flying
    state = verdict.outcome.value if verdict is not None else "Waiting" if waiting else report.phase.value
    steps = tuple(_steps(report.steps, now, whole=whole)) if flying or whole else ()
    took = _took(report.started_at, report.finished_at or now)
    return Branch(name=name, state=state, took=took, branches=steps)


def _steps(steps: Iterable[StepStatus], now: datetime, *, whole: bool) -> Iterator[Branch]:
    listed = tuple(steps)
    current = [step for step in listed if step.result in _AT_WORK] or list(listed)
    shown = listed if whole else current[-1:]
    for step, after in zip_longest(shown, shown[1:]):
        repeated = after is not None and after.detail == step.detail  # every step that is undone repeats the cause
        took = _took(step.started_at, step.finished_at or (now if step.result in _AT_WORK else None))
        place = f"step {list(Step).index(Step(step.name)) + 1} of {len(Step)}" if step.name in set(Step) else ""
        yield Branch(
            name=step.name, state=step.result.value, took=took, about=place if repeated else step.detail or place
        )


def _took(began: datetime | None, until: datetime | None) -> timedelta | None:
    return None if began is None or until is None else until - began
