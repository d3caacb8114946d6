"""Detect whether a runtime shows everything that runs. If it does not, a kubelet would create every pod a second time.

Processes survive a restart of the runtime with another configuration, and with another ``root`` or ``state`` the
runtime does not know them. So the processes that still run are compared with what the runtime shows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from nodeupgrade.node.verification.verification import SANDBOX, affected

Alive = Callable[[Iterable[Process]], frozenset[Process]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why no kubelet may be started on the present runtime."""

    reason: Reason
    why: str


def find_hidden(plan: RunPlan, now: Inventory, alive: Alive) -> tuple[str, ...]:
    """Return the labels of instances that ran when the run was planned and still do, but are not shown as running.

    Of a process that several instances share, only the runtime knows which of them still run.
    """
    watched = plan.watched()
    running, ready = {c.id for c in now.running()}, {s.id for s in now.sandboxes if s.ready}
    shared, ended = plan.baseline.shared(), {c.id for c in now.containers if c.state is ContainerState.EXITED}
    told = {c.id for c in watched.running() if c.process in shared and c.id in ended and c.sandbox_id in ready}
    hidden = [
        *((c.label, c.process) for c in watched.running() if c.id not in running | told),
        *((f"{s.pod}{SANDBOX}", s.process) for s in watched.sandboxes if s.ready and s.id not in ready),
    ]
    living = alive(process for _, process in hidden if process is not None) if hidden else frozenset()
    return affected(label for label, process in hidden if process in living)
