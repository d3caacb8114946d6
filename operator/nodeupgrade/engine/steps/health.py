"""Waiting for a kubelet to be healthy, and noticing early that it never will be."""

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.engine.node import Node

OLD_KUBELET_START_SECONDS = 120.0
POLL_SECONDS = 0.02
LOOK_AT_UNIT_SECONDS = 1.0
RESTARTS_TOLERATED = 2


def wait_until_healthy(node: Node, unit: str, timeout: float) -> None:
    """Return once ``/healthz`` answers ok.

    Raises:
        StepFailed: it did not within ``timeout`` seconds, or the unit failed or keeps dying.
    """
    deadline = node.clock.monotonic() + timeout
    next_look = node.clock.monotonic() + LOOK_AT_UNIT_SECONDS
    while not node.kubelet.healthy():
        now = node.clock.monotonic()
        if now >= next_look:
            _refuse_to_hope(node, unit)
            next_look = now + LOOK_AT_UNIT_SECONDS
        if now >= deadline:
            raise StepFailed(
                f"the kubelet did not become healthy within {timeout:.0f} s; see journalctl -u {unit}",
                reason=Reason.KUBELET_DID_NOT_START,
            )
        node.clock.sleep(POLL_SECONDS)


def _refuse_to_hope(node: Node, unit: str) -> None:
    status = node.services.status(unit)
    if status.active_state == "failed" or status.restarts >= RESTARTS_TOLERATED:
        raise StepFailed(
            f"the kubelet exits right after its start ({status.active_state}, result {status.result}, "
            f"{status.restarts} automatic restarts); see journalctl -u {unit}",
            reason=Reason.KUBELET_DID_NOT_START,
        )
