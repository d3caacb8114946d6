"""Failpoints: named places in a run where a test can interrupt it. They do nothing otherwise.

Their names, ``step.when``, are the same on a simulated and on a real node. Every step has the four of ``When``; some
have more, in the middle of their effect.
"""

from enum import StrEnum
from typing import NewType

from nodeupgrade.api.task.step import Step

Failpoint = NewType("Failpoint", str)
"""One of FAILPOINTS, or WRONG_HASH."""

WRONG_HASH = Failpoint("plan.wrong-hash")
"""The agent has planned. Not one of FAILPOINTS, which the executor passes."""


class When(StrEnum):
    """The failpoints that every step has."""

    ANNOUNCED = "announced"
    """The step is announced on disk; nothing is done."""
    DONE = "done"
    """The step is done; DONE is not on disk yet."""
    UNDOING = "undoing"
    """The undo is announced on disk; nothing is undone."""
    UNDONE = "undone"
    """The step is undone; UNDONE is not on disk yet."""


def at(step: Step, when: When) -> Failpoint:
    """Return a step's failpoint."""
    return Failpoint(f"{step}.{when}")


FENCED = Failpoint("stop-kubelet.fenced")
"""The fence is up and the kubelet still runs."""
FIRST_REWRITTEN = Failpoint("rewrite-hashes.after-first")
"""One container has its new hash, the others do not."""
FIRST_RESTORED = Failpoint("rewrite-hashes.after-first-back")
"""One container has its old hash again, the others do not."""
RUNTIME_RESTARTED = Failpoint("restart-runtime.restarted")
"""The runtime was restarted; it may not answer yet."""
SHIELD_RAISED = Failpoint("raise-shield.raised")
"""The shield is raised; the new kubelet does not run yet."""
SHIELD_LOWERED = Failpoint("lower-shield.lowered")
"""The shield is lowered; the run is not committed yet."""
FIRST_EXCHANGED = Failpoint("swap-files.after-first")
"""One file is the new one, the others are not."""
FIRST_PUT_BACK = Failpoint("swap-files.after-first-back")
"""One file is the old one again, the others are not."""
LOOKED = Failpoint("start-kubelet.looked")
"""The last check before the start is over; the new kubelet is not started."""
KUBELET_STARTED = Failpoint("start-kubelet.started")
"""The new kubelet was started; it may not be healthy yet."""

FAILPOINTS: tuple[Failpoint, ...] = (
    *(at(step, when) for step in Step for when in When),
    FENCED,
    FIRST_REWRITTEN,
    FIRST_RESTORED,
    RUNTIME_RESTARTED,
    SHIELD_RAISED,
    SHIELD_LOWERED,
    FIRST_EXCHANGED,
    FIRST_PUT_BACK,
    LOOKED,
    KUBELET_STARTED,
)
