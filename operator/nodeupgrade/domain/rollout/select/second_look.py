"""Second looks: automatic retries of nodes that were refused for reasons that usually resolve by themselves."""

from datetime import datetime, timedelta
from itertools import takewhile

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.domain.finding import PASSING

DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""Delay after each refusal in a row; after the last one, a person must request a retry."""


def next_look(task: Task) -> datetime | None:
    """Return when to retry a node that its agent refused; None if that is left to a person.

    The agent itself has already retried for a minute. The result depends only on the task and its history, so a
    restarted operator arrives at the same time.
    """
    verdict = task.verdict
    if verdict is None or verdict.outcome is not Verdict.REFUSED or verdict.decided_at is None:
        return None
    own = (task.spec.upgrade_ref.name, task.spec.to_version, Verdict.REFUSED)
    in_a_row = takewhile(lambda run: (run.upgrade, run.to_version, run.result) == own, reversed(task.spec.history))
    earlier = sum(1 for _ in in_a_row)
    if verdict.reason not in PASSING or earlier >= len(DELAYS):
        return None
    return verdict.decided_at + DELAYS[earlier]
