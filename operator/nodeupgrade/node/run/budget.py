"""Estimate how long undoing steps takes: a run keeps that much of its kubelet-down budget in reserve."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Journal, Mark

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
