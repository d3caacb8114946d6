"""Whether a runtime shows what runs: a kubelet that is started on one that does not makes every pod a second time.

Processes outlive a runtime that is restarted with another configuration, and with another ``root`` or ``state`` it
knows nothing of them. So the kernel is asked what still runs, and the runtime whether it knows that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.node.evidence.verification import SANDBOX, affected_labels
from nodeupgrade.domain.node.inventory import Inventory, Process
from nodeupgrade.domain.node.plan import RunPlan

GO_ON = "go-on"
"""A file of this name in a run's directory: somebody wants the kubelet to be started all the same."""
NAMED = 3

Alive = Callable[[Iterable[Process]], frozenset[Process]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Why no kubelet may be started on the runtime as it is."""

    reason: Reason
    why: str


def unshown(plan: RunPlan, now: Inventory, alive: Alive) -> tuple[str, ...]:
    """What ran when the run was planned, still does, and is not shown as running.

    Args:
        alive: which of some processes the kernel still has.
    """
    expendable = {c.id for c in plan.containers if c.expendable}
    unwatched = {c.sandbox_id for c in plan.baseline.containers if c.id in expendable}
    running, ready = {c.id for c in now.running()}, {s.id for s in now.sandboxes if s.ready}
    hidden = [
        *((c.label, c.process) for c in plan.baseline.running() if c.id not in running | expendable),
        *(
            (f"{s.pod}{SANDBOX}", s.process)
            for s in plan.baseline.sandboxes
            if s.ready and s.id not in ready | unwatched
        ),
    ]
    living = alive(process for _, process in hidden if process is not None) if hidden else frozenset()
    return affected_labels(label for label, process in hidden if process in living)
