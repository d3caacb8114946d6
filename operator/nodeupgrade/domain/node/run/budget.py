"""What going back would cost, so that a run turns back while there is still time for it.

The kubelet-down budget is meant for the whole time without a kubelet, the way back included. What a step takes
to undo is told from what steps took in this very run, on this very node, and never less than a floor.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from nodeupgrade.domain.node.run.journal import Journal, Mark, Step

SAFETY = 2.0
"""A step may take that many times longer to undo than what it is measured by."""

KUBELET_START_SECONDS = 5.0
"""Until the old kubelet is healthy again; nothing in a run tells. 0.4 s is usual, kubelet 1.20 needs 4.8 s."""

_MEASURED_BY: Mapping[Step, tuple[tuple[Step, float], ...]] = MappingProxyType({
    Step.PIN_STATIC_PODS: ((Step.PIN_STATIC_PODS, 0.1),),
    # Containers are restored one by one, and then the runtime has to read them again.
    Step.REWRITE_HASHES: ((Step.REWRITE_HASHES, 0.5), (Step.RESTART_RUNTIME, 1.0)),
    Step.SET_ARGUMENTS: ((Step.SET_ARGUMENTS, 0.1),),
    Step.SWAP_BINARY: ((Step.SWAP_BINARY, 0.1),),
    Step.START_KUBELET: ((Step.STOP_KUBELET, 0.3),),
})  # fmt: skip
"""By which steps the undoing of one is measured, each with its floor in seconds. Others cost nothing to undo."""


def undo_seconds(journal: Journal, steps: Iterable[Step]) -> float:
    """Estimate, on the safe side, how long undoing these steps takes until a kubelet is healthy again."""
    total = 0.0
    for step in steps:
        total += KUBELET_START_SECONDS if step is Step.STOP_KUBELET else 0.0
        for measure, floor in _MEASURED_BY.get(step, ()):
            total += max(floor, SAFETY * taken(journal, measure))
    return total


def taken(journal: Journal, step: Step) -> float:
    """Seconds that a step took, interruptions included; 0 as long as it is not done."""
    began, ended = journal.first(step, Mark.DOING), journal.first(step, Mark.DONE)
    if began is None or ended is None or began.boot != ended.boot:
        return 0.0
    return max(0.0, ended.monotonic - began.monotonic)
