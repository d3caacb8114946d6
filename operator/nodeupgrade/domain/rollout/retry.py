"""Retries: which nodes are retried, on request or automatically, and how their tasks are reopened.

Used by claims, which adds the writes to the plan. A reopened node waits for its turn like any other.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import PAST_RUNS_KEPT
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, PastRun, RunKind, TaskAction, Verdict, new_run_id
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.domain.rollout.actions import Reopen
from nodeupgrade.domain.rollout.node_state import Place
from nodeupgrade.domain.rollout.rollout_view import RolloutView

RETRIED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED})
"""Verdicts that a retry clears; a node that could not be rolled back needs a person."""


def is_carried_out(rollout: RolloutView, now: datetime) -> bool:
    """Report whether every node that the retry is about waits for its turn again, so that the retry is handled.

    Nodes that failed and whose tasks were deleted must be claimed again before.
    """
    if is_void(rollout):
        return False
    claimed = not any(member.record is not None for member in rollout.unclaimed)
    return claimed and not any(reopened(rollout, now, by_itself=False))


def is_void(rollout: RolloutView) -> bool:
    """Report whether nothing is tried again because the rollout is being aborted or deleted."""
    return rollout.upgrade.deleting or rollout.spec.action is RolloutAction.ABORT


def reopened(rollout: RolloutView, now: datetime, *, by_itself: bool) -> Iterable[Reopen]:
    """Reopen prechecked nodes once the action is Run, nodes to retry on request, and nodes to retry automatically."""
    wanted = rollout.upgrade.retry if rollout.upgrade.retry_asked else None
    for member in rollout.members.values():
        task = member.task
        if task is None or task.verdict is None or member.view is None or member.place is Place.IN_FLIGHT:
            continue
        if task.kind is RunKind.PRECHECK and rollout.spec.action is RolloutAction.RUN:
            yield _reopen(rollout, task, task.spec.retry, "its plan was made", now)
        elif wanted is not None and wanted != task.spec.retry and task.verdict.outcome in RETRIED:
            yield _reopen(rollout, task, wanted, f"retry {wanted} is asked for", now)
        elif by_itself and member.again is not None and member.again <= now:
            yield _reopen(rollout, task, task.spec.retry, f"{task.verdict.reason} may have passed", now)


def _reopen(rollout: RolloutView, task: Task, retry: str, because: str, now: datetime) -> Reopen:
    spec = replace(
        task.spec,
        run_id=new_run_id(rollout.upgrade.uid, now),
        action=TaskAction.WAIT,
        action_reason="",
        action_message="",
        retry=retry,
        deadline=None,
        guard=GuardGrant(),
        verdict=None,
        history=past_runs(task),
    )
    message = f"node {task.name} waits for its turn again: {because}"
    return Reopen(node=task.name, task=task, spec=spec, reason=Reason.REOPENED, message=message)


def past_runs(held: Task) -> tuple[PastRun, ...]:
    """Return the history including the last run, at most PAST_RUNS_KEPT entries; a precheck does not count as a run."""
    verdict = held.verdict
    if verdict is None or held.kind is RunKind.PRECHECK:
        return held.spec.history
    past = PastRun(
        upgrade=held.spec.upgrade_ref.name,
        from_version=held.spec.from_version,
        to_version=held.spec.to_version,
        result=verdict.outcome,
        time=verdict.decided_at,
    )
    return (*held.spec.history, past)[-PAST_RUNS_KEPT:]
