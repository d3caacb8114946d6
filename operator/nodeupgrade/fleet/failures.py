"""Failures, which count until a retry, whatever becomes of the Node.

The task of a node records the verdict on its run, and in its history those of earlier Nodes of the same name. It
outlives the Node, so ``status.failures`` is a view of the tasks. Only where no task shows a failure, because it was
deleted by hand, the entry is itself the record.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from nodeupgrade.api.limits import FAILURE_MESSAGE_LENGTH, FAILURE_WORD_LENGTH, shorten, stored_uid
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import PastRun, RunVerdict
from nodeupgrade.api.upgrade.status import NodeFailure, UpgradeStatus
from nodeupgrade.api.values import RunKind, Verdict
from nodeupgrade.findings.finding import PASSING

FAILURES = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})
"""Verdicts that count against the failure threshold; a refused node was not touched and does not count."""

RECORDED = FAILURES | {Verdict.REFUSED}
"""Verdicts that stay on record until a retry."""

DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""Delay after each refusal in a row; after further ones, the last of these."""

LAST_LOOKS = 3
"""How often in a row a node that lingers is refused after the last verdict on another node, until it is given up."""


def next_look(task: Task, judged: datetime | None) -> datetime | None:
    """Return when to retry a node that its agent refused; None if that is left to a person.

    The agent itself has already retried for a minute. A verdict that is itself such a refusal extends no other node's
    looks, so nodes that are never quiet do not keep each other waiting.

    Args:
        task: The node's task.
        judged: When the rollout last reached a verdict that no second look replaces; None if it has reached none.
    """
    verdict, earlier = task.verdict, _refusals_before(task)
    if verdict is None or verdict.decided_at is None or not may_pass(verdict):
        return None
    times = (verdict.decided_at, *(run.time for run in earlier))
    since = sum(judged is None or time is None or time > judged for time in times)
    if lingers(task) and since >= LAST_LOOKS:
        return None
    return verdict.decided_at + DELAYS[min(len(earlier), len(DELAYS) - 1)]


def lingers(task: Task) -> bool:
    """Report whether a node was refused so often in a row that its wave waits for it no longer."""
    return task.verdict is not None and may_pass(task.verdict) and len(_refusals_before(task)) >= len(DELAYS)


def may_pass(verdict: RunVerdict) -> bool:
    """Report whether a verdict is a refusal for a reason that often resolves by itself."""
    return verdict.outcome is Verdict.REFUSED and verdict.reason in PASSING


def last_judged(tasks: Iterable[Task]) -> datetime | None:
    """Return when a rollout last reached a verdict on an upgrade that no second look replaces; None if it has not."""
    verdicts = (task.verdict for task in tasks if task.kind is RunKind.UPGRADE)
    lasting = (verdict for verdict in verdicts if verdict is not None and not may_pass(verdict))
    return max((each.decided_at for each in lasting if each.decided_at is not None), default=None)


def _refusals_before(task: Task) -> tuple[PastRun, ...]:
    """Return the refusals in a row before the last run, the latest first."""
    own = (task.spec.upgrade_ref.name, task.spec.to_version, Verdict.REFUSED)
    runs = reversed(task.spec.history)
    return tuple(takewhile(lambda run: (run.upgrade, run.to_version, run.result) == own, runs))


_SERIOUSNESS = (Verdict.ROLLBACK_FAILED, Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED)
_UNDATED = datetime.min.replace(tzinfo=UTC)


def failures_of(status: UpgradeStatus, tasks: Collection[Task], retry: str) -> tuple[NodeFailure, ...]:
    """Return the failures that count: first those that no task shows, then the most serious ones.

    Args:
        status: The status of the rollout.
        tasks: The tasks of the rollout.
        retry: The token of the last retry that has been carried out.
    """
    shown = [each for task in tasks for each in _shown_by(task, retry)]
    known = {each.uid for each in shown} | {stored_uid(task.spec.node_uid) for task in tasks}
    others = (each for each in status.failures if each.outcome is not None and each.uid not in known)
    return (*sorted(others, key=_order), *sorted(shown, key=_order))


def _order(failure: NodeFailure) -> tuple[int, datetime, str]:
    seriousness = len(_SERIOUSNESS) if failure.outcome is None else _SERIOUSNESS.index(failure.outcome)
    return seriousness, failure.time or _UNDATED, failure.node


def _shown_by(task: Task, retry: str) -> Iterator[NodeFailure]:
    """Yield the failures that a task of the rollout records: of its run, and of earlier Nodes of the same name."""
    last = {past.node_uid: past for past in task.spec.history if past.upgrade_uid == task.spec.upgrade_ref.uid}
    for uid, past in last.items():
        passing = past.result is Verdict.REFUSED and known_reason(past.reason) in PASSING
        if uid != task.spec.node_uid and past.retry == retry and past.result in RECORDED and not passing:
            yield _of_earlier_node(task, past)
    if task.verdict is not None and records_failure(task):
        yield _of_verdict(task, task.verdict)


def _of_earlier_node(task: Task, past: PastRun) -> NodeFailure:
    because = f"an earlier Node {task.name} ended its run as {past.result.value} ({past.reason})"
    return NodeFailure(
        node=task.name,
        reason=past.reason[:FAILURE_WORD_LENGTH],
        step="run",
        message=because,
        time=past.time,
        uid=stored_uid(past.node_uid),
        wave=past.wave,
        outcome=past.result,
        restarted=None if past.reason == Reason.NODE_LOST.value else past.restarted,
    )


def records_failure(task: Task) -> bool:
    """Report whether the verdict of a task counts until a retry."""
    return task.kind is RunKind.UPGRADE and task.verdict is not None and task.verdict.outcome in RECORDED


def _of_verdict(task: Task, verdict: RunVerdict) -> NodeFailure:
    unknown = task.reported.containers.unknown and not verdict.restarted
    return NodeFailure(
        node=task.name,
        reason=verdict.reason.value[:FAILURE_WORD_LENGTH],
        step=step_of(task)[:FAILURE_WORD_LENGTH],
        message=shorten(verdict.message, FAILURE_MESSAGE_LENGTH),
        time=verdict.decided_at,
        uid=stored_uid(task.spec.node_uid),
        wave=task.spec.wave,
        outcome=verdict.outcome,
        restarted=None if unknown or verdict.reason is Reason.NODE_LOST else verdict.restarted,
    )


def step_of(task: Task) -> str:
    """Return the step that failed, as far as the node side has reported it."""
    refused = task.verdict is not None and task.verdict.outcome is Verdict.REFUSED
    return task.reported.failed_step or ("preflight" if refused else "run")
