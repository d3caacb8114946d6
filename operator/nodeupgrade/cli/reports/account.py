"""Where the seconds of one node's run went, derived from the times that its task has on record."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import began_at
from nodeupgrade.api.task.status import StepResult
from nodeupgrade.api.task.step import Step

_STEPS = {"exchange": Step.START_KUBELET, "show": Step.AWAIT_NODE_STATUS, "settle": Step.VERIFY}


def account(task: Task) -> Mapping[str, float]:
    """Return how many seconds each part of a run took, in order; a part whose end is not on record is left out.

    From the slot to the handover (``prepare``), to a healthy new kubelet (``exchange``), until the API server shows it
    (``show``), ``settle``, to the node's last report (``finish``), and to the ``verdict``. First and last time are by
    the operator's clock, the others by the node's; a part that ends before it begins took no time.
    """
    last, parts = began_at(task.spec.run_id), dict[str, float]()
    for name, moment in _ends(task):
        if moment is None:
            continue
        if last is not None:
            parts[name] = round(max(0.0, (moment - last).total_seconds()), 1)
        last = moment if last is None else max(last, moment)
    return parts


def _ends(task: Task) -> Iterator[tuple[str, datetime | None]]:
    report, verdict = task.reported, task.verdict
    done = {step.name: step.finished_at for step in report.steps if step.result is StepResult.DONE}
    yield "prepare", report.started_at
    yield from ((name, done.get(step)) for name, step in _STEPS.items())
    yield "finish", report.finished_at
    yield "verdict", None if verdict is None else verdict.decided_at
