"""Nodes that were refused for what usually passes: when they are looked at again without anybody's asking."""

from datetime import datetime, timedelta
from itertools import takewhile

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.domain.finding import PASSING

DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""How long after each refusal in a row; when the last look was in vain as well, a human has to ask for a retry."""


def next_look(task: Task) -> datetime | None:
    """Return when a node is looked at again that its agent has refused; ``None`` if that is left to a human.

    The agent itself has waited for a minute by then. Nothing is remembered but the task's own history, so that a
    restarted operator comes to the same moment.
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
