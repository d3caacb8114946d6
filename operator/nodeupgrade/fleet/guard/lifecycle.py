"""The lifecycle of a node's guard: when to raise, narrow and lift it, decided from API objects alone.

The parameters are written before the task, so an operator that dies in between writes both again. Every entry expires
within minutes, so a guard that is never lifted ends all the same.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, TaskAction
from nodeupgrade.api.task.status import StepResult, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.actions import DeclineGuard, GuardParameters, LiftGuard, NarrowGuard, NodeAction, RaiseGuard
from nodeupgrade.fleet.guard.requirement import (
    HANDOVER,
    LIFTED_KEY,
    STATUS_REPORT,
    ended,
    entries,
    is_over,
    keys_of,
    node_ended,
    node_guard_end,
    own_entry,
    whole_seconds,
)
from nodeupgrade.text import known_time, parse_time

LIFTING = timedelta(minutes=2)
"""How long after its verdict a node keeps its slot while the API server refuses to lift its guard."""


def next_guard_action(
    task: Task,
    node: NodeView,
    parameters: GuardParameters | None,
    obstacle: str | None,
    *,
    busy: Iterable[NodeName],
    now: datetime,
) -> NodeAction | None:
    """Return the next action for the guard of a node in flight, or None.

    Args:
        task: The node's task.
        node: The Node as the API server shows it.
        parameters: The ConfigMap; None if it does not exist or was not read.
        obstacle: Why nodes cannot be guarded; None if they can.
        busy: The nodes in flight of any rollout, whose entries stay.
        now: Wall-clock time, UTC.
    """
    if is_asked_for(task):
        return _answer(task, parameters, obstacle, busy, now)
    runs_by = task.spec.guard.kubelet_runs_by
    if parameters is None or runs_by is None:
        return None
    if (restored := _restored(parameters, task, runs_by, now)) is not None:
        return restored
    if _kubelet_runs(task.reported):
        running = _running_since(task.reported, runs_by, now)
        return _narrowed(parameters, task, running) if running < runs_by else _ended_early(parameters, task, node, now)
    return (
        _prolonged(parameters, task, whole_seconds(now) + task.spec.verify.kubelet_down_budget, now)
        if runs_by <= now
        else None
    )


def is_asked_for(task: Task) -> bool:
    """Report whether the agent waits for an answer about the guard; an aborted run does not."""
    asks = task.reported.phase is TaskPhase.STAGED and task.reported.guard.ask not in {"", task.spec.guard.answers}
    return asks and task.spec.action is TaskAction.UPGRADE


def decline(task: Task, problem: str) -> DeclineGuard:
    """Return the answer that a node cannot be guarded."""
    return DeclineGuard(
        task=task,
        grant=GuardGrant(wanted=True, answers=task.reported.guard.ask),
        message=f"node {task.name} cannot be guarded: {problem}",
    )


def lift(parameters: GuardParameters | None, task: Task, now: datetime) -> LiftGuard | None:
    """Return the action that lifts the guard of a node whose run is over, or None if there is nothing to lift.

    A node whose guard cannot be lifted waits no longer than ``LIFTING``: the guard expires, and is cleaned up later.
    """
    if parameters is None or not (keys := keys_of(parameters, task.name)):
        return None
    decided = None if task.verdict is None else task.verdict.decided_at
    if decided is None or now > decided + LIFTING:
        return None
    message = f"node {task.name} is not guarded any more"
    return LiftGuard(task=task, parameters=parameters, changes=dict.fromkeys(keys), message=message)


def end(parameters: GuardParameters | None, task: Task, now: datetime) -> LiftGuard | None:
    """Return the action that ends a node's guard before its verdict, so that the kubelet can report the real status.

    The time at which it ended stays on record until the verdict, see ``reports_by``. After an early end and a rollback,
    it is the old kubelet that has to report.
    """
    if parameters is None:
        return None
    ends = node_guard_end(parameters, task.name)
    rolled_back = task.reported.phase is not TaskPhase.SUCCEEDED
    again = rolled_back and _has_ended(parameters, task) and task.name in parameters.data
    if not again and (ends is None or now >= ends + STATUS_REPORT):
        return None
    message = f"the guard of node {task.name} ends, and its kubelet's reports are awaited before the node is judged"
    return LiftGuard(task=task, parameters=parameters, changes=ended(task.name, now), message=message)


def _ended_early(parameters: GuardParameters, task: Task, node: NodeView, now: datetime) -> LiftGuard | None:
    """End the guard of the Node once it protects nothing any more, so that the kubelet's reports are heard meanwhile.

    By then the new kubelet has reported the Node Ready: a report that makes it not Ready is denied as a whole, version
    included. And it can have probed every pod; their own guards end by themselves.
    """
    runs_by, exposure = task.spec.guard.kubelet_runs_by, task.reported.guard.exposure_seconds
    ends = node_guard_end(parameters, task.name)
    if runs_by is None or ends is None or now >= ends or not 0 < exposure <= (now - runs_by).total_seconds():
        return None
    shown = node.ready and node.kubelet_version == task.spec.to_version
    changes = node_ended(task.name, now)
    if not shown or not changes or task.reported.phase is not TaskPhase.VERIFYING:
        return None
    message = f"the new kubelet of node {task.name} has reported and probed; the node's guard ends"
    return LiftGuard(task=task, parameters=parameters, changes=changes, message=message)


def _has_ended(parameters: GuardParameters, task: Task) -> bool:
    """Report whether the guard of the Node has ended before its time."""
    return LIFTED_KEY + task.name in parameters.data


def reports_by(parameters: GuardParameters | None, task: Task) -> datetime | None:
    """Return when the kubelet has had time to report the node unready since the guard ended; None without a guard."""
    if parameters is not None:
        lifted = known_time(parameters.data.get(LIFTED_KEY + task.name, ""))
        ends = lifted or node_guard_end(parameters, task.name)
    elif (runs_by := task.spec.guard.kubelet_runs_by) is not None:
        written = entries(task.name, runs_by, task.spec.verify)
        ends = max(map(parse_time, written.values()))
    else:
        ends = None
    return None if ends is None else ends + STATUS_REPORT


def _answer(
    task: Task, parameters: GuardParameters | None, obstacle: str | None, busy: Iterable[NodeName], now: datetime
) -> NodeAction:
    if obstacle is not None or parameters is None:
        return decline(task, str(obstacle))
    runs_by = whole_seconds(now) + HANDOVER + task.spec.verify.kubelet_down_budget
    stale = dict.fromkeys(_stale(parameters, busy, now))
    return RaiseGuard(
        task=task,
        parameters=parameters,
        changes={**stale, **entries(task.name, runs_by, task.spec.verify)},
        grant=GuardGrant(wanted=True, answers=task.reported.guard.ask, kubelet_runs_by=runs_by),
        message=f"node {task.name} is ready to exchange its kubelet; {_until(runs_by)}",
    )


def _restored(parameters: GuardParameters, task: Task, runs_by: datetime, now: datetime) -> RaiseGuard | None:
    """Return the action that restores removed entries, or None if they exist or have expired."""
    written = entries(task.name, runs_by, task.spec.verify)
    over = now >= max(map(parse_time, written.values()))
    if task.name in parameters.data or _has_ended(parameters, task) or over:
        return None
    return RaiseGuard(
        task=task,
        parameters=parameters,
        changes=written,
        grant=task.spec.guard,
        message=f"node {task.name} is guarded again: another client had removed its entries from the readiness guard",
    )


def _prolonged(parameters: GuardParameters, task: Task, runs_by: datetime, now: datetime) -> RaiseGuard | None:
    """Extend the guard of the pods because no kubelet runs yet, but only while the Node itself is guarded.

    The guard of the Node is never extended, so a node side that stops reporting cannot keep a guard forever. One that
    was ended early is raised again for a rollback, until the end that it had.
    """
    match task.reported.phase:
        case TaskPhase.RUNNING:
            because = "still has no new kubelet"
        case TaskPhase.ROLLING_BACK:
            because = "rolls back to its old kubelet"
        case _:
            return None
    changes: dict[str, str | None] = {task.name: timestamp(runs_by)}
    end = node_guard_end(parameters, task.name)
    if _has_ended(parameters, task) and (before := task.spec.guard.kubelet_runs_by) is not None:
        own = own_entry(task.name, before, task.spec.verify)
        end = max(map(parse_time, own.values()), default=None)
        changes |= {**own, LIFTED_KEY + task.name: None}
    if end is None or end <= now:
        return None
    return RaiseGuard(
        task=task,
        parameters=parameters,
        changes=changes,
        grant=replace(task.spec.guard, kubelet_runs_by=runs_by),
        message=f"node {task.name} {because}; {_until(runs_by)}",
    )


def _narrowed(parameters: GuardParameters, task: Task, running: datetime) -> NarrowGuard:
    return NarrowGuard(
        task=task,
        parameters=parameters,
        changes=entries(task.name, running, task.spec.verify),
        grant=replace(task.spec.guard, kubelet_runs_by=running),
        message=f"the kubelet of node {task.name} runs; each pod stays guarded only until it can have been probed",
    )


def _stale(parameters: GuardParameters, busy: Iterable[NodeName], now: datetime) -> tuple[str, ...]:
    """Return the outdated keys of an interrupted operator; nodes in flight in any rollout keep theirs."""
    used = {key for node in busy for key in keys_of(parameters, node)}
    return tuple(sorted(key for key, value in parameters.data.items() if key not in used and is_over(value, now)))


def _until(runs_by: datetime) -> str:
    return f"its pods stay Ready until the kubelet has probed them, if it runs by {timestamp(runs_by)}"


def _kubelet_runs(status: TaskStatus) -> bool:
    """Report whether the final kubelet runs: the new one or, in a rollback, the old one again."""
    results = {step.name: step.result for step in status.steps}
    if status.phase is TaskPhase.ROLLING_BACK:
        return results.get(Step.STOP_KUBELET) is StepResult.UNDONE
    return results.get(Step.START_KUBELET) is StepResult.DONE


def _by_the_nodes_clock(status: TaskStatus) -> datetime | None:
    """Return when the kubelet was started by the node's clock: if ours is slow, the guard must not end early."""
    ends = [step.finished_at for step in status.steps if step.name in {Step.STOP_KUBELET, Step.START_KUBELET}]
    return max(filter(None, ends), default=None)


def _running_since(status: TaskStatus, runs_by: datetime, now: datetime) -> datetime:
    """Return from when each pod's time to be probed counts; ``runs_by`` if that is not earlier.

    By as much as the kubelet took to start, a busy node is late with its first probes. A node may report any times:
    nothing is added that could be out of range.
    """
    moment = max(now, _by_the_nodes_clock(status) or now)
    took = _start_took(status)
    return whole_seconds(moment + took) if took < runs_by - moment else runs_by


def _start_took(status: TaskStatus) -> timedelta:
    """Return how long the kubelet took to start, by the node's clock; zero if that went back."""
    started = (step for step in status.steps if step.name == Step.START_KUBELET and step.result is StepResult.DONE)
    times = ((step.started_at, step.finished_at) for step in started)
    return max((end - began for began, end in times if began and end and began < end), default=timedelta())
