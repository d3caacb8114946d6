"""What happens at the failpoints: at exactly one place of a run, and not at what a race makes of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.mishaps import BACK, UP, Fault, Harm, wait_workload
from e2e.ordeal import Ordeal
from nodeupgrade.domain.failpoints import FAILPOINTS, FIRST_RESTORED, Failpoint, When, at
from nodeupgrade.domain.journal import Step

TURN_BACK = at(Step.VERIFY, When.ANNOUNCED)
"""A run that fails here goes back over every step."""


def struck(name: Failpoint, action: str) -> Harm:
    """Let one failpoint strike; if it lies on the way back, let the run turn back at the last step."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        with _armed(ordeal, name, action):
            yield
            ordeal.wait_hit(name)
            yield

    return harm


def power_cut_at(name: Failpoint) -> Harm:
    """Cut the node's power while the executor stands at a failpoint."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        with _armed(ordeal, name, "hang"):
            yield
            ordeal.wait_hit(name)
            ordeal.cut_power_and_boot()
            yield
            wait_workload(ordeal)

    return harm


@contextmanager
def _armed(ordeal: Ordeal, name: Failpoint, action: str) -> Iterator[None]:
    try:
        ordeal.arm(name, action)
        if _on_the_way_back(name):
            ordeal.arm(TURN_BACK, "enospc")
        yield
    finally:
        ordeal.disarm()


def _on_the_way_back(name: Failpoint) -> bool:
    return name == FIRST_RESTORED or name.endswith((When.UNDOING, When.UNDONE))


FORWARD = tuple(name for name in FAILPOINTS if not _on_the_way_back(name))
BACKWARD = tuple(name for name in FAILPOINTS if _on_the_way_back(name))
FAULTS: tuple[Fault, ...] = (
    *(Fault(f"at/{name}/kill", struck(name, "kill"), UP) for name in FORWARD),
    *(Fault(f"at/{name}/kill", struck(name, "kill"), BACK) for name in BACKWARD),
    *(Fault(f"at/{name}/enospc", struck(name, "enospc"), BACK) for name in FAILPOINTS if name != TURN_BACK),
    *(Fault(f"power/{name}", power_cut_at(name), BACK, reboots=True) for name in FAILPOINTS),
)
