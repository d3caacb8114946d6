"""How long an executor may show no progress before it counts as hung, and is killed to be started again.

A new process continues where the journal ends, so a wrong judgement costs seconds. A missing one costs more: 40 s
without a kubelet are enough for a Node to become NotReady.
"""

from typing import assert_never

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.rescue.timeouts import hung_seconds

FILES_SECONDS = 15.0
"""For steps that only read and write files: 100 MB, the program of a kubelet, at 7 MB/s."""
CALLS_SECONDS = 30.0
"""For steps that also call the runtime: two calls of 10 s each that it does not answer, and the files."""


def seconds_without_progress(step: Step, limits: Limits) -> float:
    """Return the bound for carrying out a step. Waiting in a loop is progress, and so is each decision.

    Undoing has the bound of the longest step: a rollback that is killed again and again never ends, whereas a run that
    goes forward is turned back by its budget.
    """
    match step:
        case Step.PIN_STATIC_PODS | Step.SWAP_FILES | Step.SET_ARGUMENTS | Step.SWAP_BINARY:
            return FILES_SECONDS
        case Step.CONFIRM_INVENTORY | Step.SAVE_STATE | Step.READ_BACK | Step.RAISE_SHIELD | Step.START_KUBELET:
            return CALLS_SECONDS
        case (
            Step.CONFIRM_BINARIES
            | Step.HOLD_PACKAGE
            | Step.ARM_DEAD_MAN
            | Step.STOP_KUBELET
            | Step.REWRITE_HASHES
            | Step.RESTART_RUNTIME
            | Step.AWAIT_NODE_STATUS
            | Step.VERIFY
            | Step.LOWER_SHIELD
        ):  # a kubelet runs, or systemd stops and starts a unit, which may take its own time
            return longest_silence(limits)
        case never:
            assert_never(never)


def longest_silence(limits: Limits) -> float:
    """Return the bound where no other applies."""
    return hung_seconds(limits)
