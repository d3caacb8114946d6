"""Waiting for a kubelet to be healthy, and noticing early that it never will be."""

from collections.abc import Callable

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.engine.node.node import Node

OLD_KUBELET_START_SECONDS = 120.0
POLL_SECONDS = 0.005
LOOK_AT_UNIT_SECONDS = 1.0
DEATHS_TOLERATED = 1


def nothing() -> None:
    """Watch nothing."""


def wait_until_healthy(
    node: Node, unit: str, timeout: float, *, forgiving: bool, watch: Callable[[], None] = nothing
) -> None:
    """Return once ``/healthz`` answers ok.

    Args:
        forgiving: whether it may die any number of times. A new kubelet that dies twice at its start will do so again,
            and every second of hope is one without a kubelet (one death may be the runtime's fault, which answers
            for a moment and then not); the old one has to come up in the end.
        watch: called all the while; may raise to end the waiting.

    Raises:
        StepFailed: it did not within ``timeout`` seconds, or there is no hope that it will.
    """
    deadline = node.clock.monotonic() + timeout
    next_look = node.clock.monotonic() + LOOK_AT_UNIT_SECONDS
    pids: set[int] = set()
    while not node.kubelet.healthy():
        watch()
        now = node.clock.monotonic()
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
