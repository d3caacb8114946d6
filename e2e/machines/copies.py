"""Copies of a machine's disk at every place of a run, as a power cut there would leave it.

The run waits at each failpoint; meanwhile the machine is stopped and its disk is frozen. What the guest has not
written by then is in its memory and not in the copy. The failpoints are in a file system in memory, so that a machine
that boots from a copy has none.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.faults.run import FAILPOINTS_DROP_IN, on_the_way_back
from e2e.lab.errors import LabError
from e2e.lab.machines.vmnode import VmNode
from e2e.lab.process import patience, wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, Failpoint, When, at

_IN_THE_MIDDLE = tuple(
    name for name in FAILPOINTS if not on_the_way_back(name) and not name.endswith((When.ANNOUNCED, When.DONE))
)
PLACE = "/run/nodeupgrade-lab/failpoints"
FORWARD = tuple(
    name
    for step in Step
    for name in (at(step, When.ANNOUNCED), *_IN_THE_MIDDLE, at(step, When.DONE))
    if name.startswith(f"{step}.")
)
"""What a run passes that does not roll back, in its order; some only where a step has something to do."""
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the disk."""

    place: Failpoint  # where the run was
    image: Path  # the image, which later ones may build on


def arm(node: VmNode, names: Sequence[Failpoint]) -> None:
    """Let the next executor wait at each of these failpoints."""
    node.write(FAILPOINTS_DROP_IN, f"[Service]\nEnvironment={VARIABLE}={PLACE}\n")
    words = " ".join(names)
    node.exec("sh", "-ec", f"mkdir -p {PLACE}; cd {PLACE}; for name in {words}; do echo hang > $name; done; sync")


def wait_reached(node: VmNode, name: Failpoint, run_is_over: Callable[[], bool], timeout: float = 300) -> None:
    """Wait until the executor waits at a failpoint.

    Raises:
        LabError: after ``timeout`` seconds, or the run ends without.
    """

    def reached_or_over() -> bool:
        return name in _reached(node) or run_is_over()

    wait_until(f"the executor at {name}", reached_or_over, timeout=timeout, interval=_LOOK_SECONDS)
    if name not in _reached(node):
        raise LabError(f"the run ended before the executor was at {name}")


def release(node: VmNode, name: Failpoint) -> None:
    """Let the executor go on."""
    node.exec("rm", f"{PLACE}/{name}.hit")


def disarm(node: VmNode) -> None:
    """Disarm all of them."""
    node.exec("rm", "-rf", PLACE, str(Path(FAILPOINTS_DROP_IN).parent))


def taken(node: VmNode, run_is_over: Callable[[], bool], limit: float = 900) -> Iterator[Copy]:
    """Yield a copy for each failpoint that the run passes, and let it go on, until it is over.

    Args:
        node: the machine.
        run_is_over: reports whether the run has ended.
        limit: seconds (times ``patience``) within which the run must end.
    """
    deadline = time.monotonic() + limit * patience()
    while time.monotonic() < deadline:
        for name in _reached(node):
            yield Copy(Failpoint(name), node.freeze_disk())
            release(node, Failpoint(name))
        if run_is_over():
            return
        time.sleep(_LOOK_SECONDS)
    raise LabError("the run that waits at every failpoint does not end")


def _reached(node: VmNode) -> list[str]:
    found = node.exec("sh", "-c", f"cd {PLACE} && ls -tr | sed -n 's/[.]hit$//p'", check=False).stdout
    return found.split()
