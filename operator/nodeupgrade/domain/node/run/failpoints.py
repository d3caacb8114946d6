"""Places in a run where a test may interrupt it exactly; inert otherwise.

The names are the same on a simulated and on a real node: ``step.when``. Every step has the four moments of
``When``; some have more, inside, where half of an effect is visible.
"""

from enum import StrEnum
from typing import NewType

from nodeupgrade.domain.node.run.journal import Step

Failpoint = NewType("Failpoint", str)
"""One of FAILPOINTS."""


class When(StrEnum):
    """The moments that every step has."""

    ANNOUNCED = "announced"
    """Its announcement is on disk; nothing was done."""
    DONE = "done"
    """Everything was done; that it was is not on disk."""
    UNDOING = "undoing"
    """Its undoing is announced; nothing was undone."""
    UNDONE = "undone"
    """Everything was undone; that it was is not on disk."""


def at(step: Step, when: When) -> Failpoint:
    """The failpoint of a step at one of the moments that every step has."""
    return Failpoint(f"{step}.{when}")


FENCED = Failpoint("stop-kubelet.fenced")
"""The fence is up and the kubelet still runs."""
FIRST_REWRITTEN = Failpoint("rewrite-hashes.after-first")
"""One container has its new hash, the others do not."""
FIRST_RESTORED = Failpoint("rewrite-hashes.after-first-back")
"""One container has its old hash again, the others do not."""
RUNTIME_RESTARTED = Failpoint("restart-runtime.restarted")
"""The runtime was restarted; whether it answers is not known."""
KUBELET_STARTED = Failpoint("start-kubelet.started")
"""The new kubelet was started; whether it is healthy is not known."""

FAILPOINTS: tuple[Failpoint, ...] = (
    *(at(step, when) for step in Step for when in When),
    FENCED,
    FIRST_REWRITTEN,
    FIRST_RESTORED,
    RUNTIME_RESTARTED,
    KUBELET_STARTED,
)
"""All of them."""
