"""Wait for a kubelet to become healthy, and detect early that it never will."""

from collections.abc import Callable

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.engine.node.node import Node

OLD_KUBELET_START_SECONDS = 120.0
POLL_SECONDS = 0.005
LOOK_AT_UNIT_SECONDS = 1.0
DEATHS_TOLERATED = 1


def nothing() -> None:
    """Do nothing."""


def wait_until_healthy(
    node: Node, unit: str, timeout: float, *, forgiving: bool, watch: Callable[[], None] = nothing
) -> None:
    """Return once ``/healthz`` answers ok.

    Args:
        forgiving: whether the kubelet may exit any number of times. A new kubelet that exits twice at its start will
            do so again, and waiting for it costs downtime (one exit may be the fault of a runtime that stops answering
            for a moment); the old kubelet has to come up eventually.
        watch: called repeatedly while waiting; may raise to end the wait.

    Raises:
        StepFailed: the kubelet did not become healthy within ``timeout`` seconds, or it keeps exiting.
    """
    deadline = node.clock.awake() + timeout
    next_look = node.clock.awake() + LOOK_AT_UNIT_SECONDS
    pids: set[int] = set()
    while not node.kubelet.healthy():
        watch()
        now = node.clock.awake()
        if now >= next_look:
            status = node.services.status(unit)
            pids.add(status.main_pid)
            deaths = max(status.restarts, len(pids - {0}) - 1) + (status.sub_state == "auto-restart")
            if status.active_state == "failed" or (deaths > DEATHS_TOLERATED and not forgiving):
                raise StepFailed(
                    f"the kubelet exits right after its start ({status.active_state}, result {status.result}); "
                    f"see journalctl -u {unit}",
                    reason=Reason.KUBELET_DID_NOT_START,
                )
            next_look = now + LOOK_AT_UNIT_SECONDS
        if now >= deadline:
            raise StepFailed(
                f"the kubelet did not become healthy within {timeout:.0f} s; see journalctl -u {unit}",
                reason=Reason.KUBELET_DID_NOT_START,
            )
        node.clock.sleep(POLL_SECONDS)
