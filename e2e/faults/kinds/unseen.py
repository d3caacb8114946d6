"""What a preflight or the last look refuses, done where neither sees it: then only the shield keeps the containers.

The changes of `unit/start-pre` and `tool/*` come after the last look, and the executor is halted until the wrong
kubelet has wanted to end containers, because it would stop that kubelet before.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from e2e.changes import KUBELET_DROP_IN
from e2e.faults.fault import BACK, Fault
from e2e.faults.kinds.drift import PATIENT, drop_in, keep_program, kept
from e2e.faults.kinds.shield import wait_for_refusals
from e2e.faults.run import FaultRun, Harm
from e2e.lab.nodes import nodefiles
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED, LOOKED

Change = Callable[[FaultRun], AbstractContextManager[None]]


def unseen(change: Change, *, reverted: bool = False) -> Harm:
    """Change something between the last look and the start, and let the wrong kubelet do what it wants.

    Args:
        reverted: whether the unit is as before again when the executor goes on, because it would start neither kubelet.
    """

    def harm(run: FaultRun) -> Iterator[None]:
        keep_program(run)
        with run.armed(LOOKED, "hang"):
            run.arm(KUBELET_STARTED, "hang")
            yield
            run.wait_hit(LOOKED)
            with change(run):
                run.release(LOOKED)
                run.wait_hit(KUBELET_STARTED)
                wait_for_refusals(run)
                if reverted:
                    run.cluster.node.exec("rm", KUBELET_DROP_IN)
                    run.cluster.node.exec("systemctl", "daemon-reload")
                run.release(KUBELET_STARTED)
                yield

    return harm


def start_pre(run: FaultRun) -> AbstractContextManager[None]:
    """Have the unit copy the old program over the new one before it starts."""
    return drop_in(
        run, f"[Service]\nExecStartPre=/bin/cp --remove-destination {kept(run)} {nodefiles.KUBELET_BINARY}\n"
    )


@contextlib.contextmanager
def program_put_back(run: FaultRun) -> Iterator[None]:
    """Let a tool restore the old program."""
    run.cluster.node.exec("cp", "--remove-destination", kept(run), nodefiles.KUBELET_BINARY)
    yield


def other_program(run: FaultRun) -> AbstractContextManager[None]:
    """Have a drop-in start the old program under another name."""
    return drop_in(run, f"[Service]\nExecStart=\nExecStart={kept(run)} $KUBELET_FLAGS\n")


FAULTS: tuple[Fault, ...] = (
    Fault("unit/start-pre-unseen", unseen(start_pre, reverted=True), BACK, spec=PATIENT),
    Fault("tool/program-unseen", unseen(program_put_back), BACK, spec=PATIENT),
    Fault("tool/drop-in-unseen", unseen(other_program), BACK, spec=PATIENT),
)
