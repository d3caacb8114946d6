"""The kubelet-down budget, after which a run rolls back. The time to undo the steps so far is kept in reserve."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.plan.plan import Limits

_STEPS = tuple(Step)

SAFETY = 2.0
"""Undoing may take this many times longer than the measured step."""

KUBELET_START_SECONDS = 5.0
"""Seconds until the old kubelet is healthy again, not measurable in a run. 0.4 s is usual; kubelet 1.20 takes 4.8 s."""

_MEASURED_BY: Mapping[Step, tuple[tuple[Step, float], ...]] = MappingProxyType({
    Step.PIN_STATIC_PODS: ((Step.PIN_STATIC_PODS, 0.1),),
    # Hashes are restored one by one, and then the runtime has to read them again.
    Step.REWRITE_HASHES: ((Step.REWRITE_HASHES, 0.5), (Step.RESTART_RUNTIME, 1.0)),
    Step.SWAP_FILES: ((Step.SWAP_FILES, 0.1),),
    Step.SET_ARGUMENTS: ((Step.SET_ARGUMENTS, 0.1),),
    Step.SWAP_BINARY: ((Step.SWAP_BINARY, 0.1),),
    Step.START_KUBELET: ((Step.STOP_KUBELET, 0.3),),
})  # fmt: skip
"""For each step, the steps that measure its undo, with a floor in seconds. Other steps cost nothing to undo."""


def seconds_left(journal: Journal, boot: BootIdentity, now: float, limits: Limits) -> float | None:
    """Return how many seconds of the kubelet-down budget the next step may use, with a reserve for undoing all steps.

    ``None`` while the budget does not apply: before the kubelet is stopped, and once the new one is healthy. The
    kubelet is not stopped unless the budget covers undoing all steps up to its start.
    """
    step, stop, start = (_STEPS.index(s) for s in (journal.next_step, Step.STOP_KUBELET, Step.START_KUBELET))
    if not stop <= step <= start:
        return None
    down = kubelet_down_seconds(journal, boot, now) or 0.0
    return limits.kubelet_down - down - undo_seconds(journal, _STEPS[: (start if step == stop else step) + 1])


def kubelet_down_seconds(journal: Journal, boot: BootIdentity, now: float) -> float | None:
    """Return the seconds since the kubelet began to stop; ``None`` while it runs (or the new one is healthy)."""
    stopping = journal.first(Step.STOP_KUBELET, Mark.DOING)
    if stopping is None or journal.mark(Step.START_KUBELET) is Mark.DONE or stopping.boot != boot:
        return None
    return max(0.0, now - stopping.monotonic)


def undo_seconds(journal: Journal, steps: Iterable[Step]) -> float:
    """Estimate conservatively how long undoing these steps takes, in seconds, until a kubelet is healthy again."""
    total = 0.0
    for step in steps:
        total += KUBELET_START_SECONDS if step is Step.STOP_KUBELET else 0.0
        for measure, floor in _MEASURED_BY.get(step, ()):
            total += max(floor, SAFETY * _seconds_taken(journal, measure))
    return total


def _seconds_taken(journal: Journal, step: Step) -> float:
    """Return how many seconds a step took, interruptions included; 0 if it is not done."""
    began, ended = journal.first(step, Mark.DOING), journal.first(step, Mark.DONE)
    if began is None or ended is None or began.boot != ended.boot:
        return 0.0
    return max(0.0, ended.monotonic - began.monotonic)
