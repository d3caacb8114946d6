"""Wait for a kubelet to become healthy, and detect early that it never will."""

from collections.abc import Callable

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.run.kubelet_log import is_deaf, last_errors, read_log

OLD_KUBELET_START_SECONDS = 120.0
POLL_SECONDS = 0.005
LOOK_AT_UNIT_SECONDS = 1.0
DEATHS_TOLERATED = 1
STAYS_UP_SECONDS = 5.0
"""A kubelet answers before it starts its container manager and cAdvisor, of which it may die."""


def wait_until_healthy(node: Node, unit: str, timeout: float, *, forgiving: bool, watch: Callable[[], None]) -> None:
    """Return once ``/healthz`` answers ok.

    A new kubelet that exits twice at its start will do so again, and waiting for it costs downtime (one exit may be the
    fault of a runtime that stops answering for a moment). The old kubelet has to come up eventually: ``forgiving``. If
    another process has taken its port or is reached there, which any user of the node can bring about, it is enough in
    the end that it runs. While waiting, ``watch`` is called repeatedly, and may raise.

    Raises:
        StepFailed: the kubelet did not become healthy within ``timeout`` seconds, or it keeps exiting.
    """
    deadline = node.clock.awake() + timeout
    next_look = node.clock.awake() + LOOK_AT_UNIT_SECONDS
    pids: set[int] = set()
    errors = ""
    while not node.kubelet.healthy():
        watch()
        now = node.clock.awake()
        if now >= next_look:
            status = node.services.status(unit)
            pids.add(status.main_pid)
            exited = status.sub_state == "auto-restart"
            if exited and not errors:  # the log has its last lines only a moment after it has exited
                errors = last_errors(read_log(node, unit))
            deaths = max(status.restarts, len(pids - {0}) - 1) + exited
            if status.active_state == "failed" or (deaths > DEATHS_TOLERATED and not forgiving):
                what = f"exits right after its start ({status.active_state}, result {status.result})"
                raise _did_not_start(node, unit, what, errors)
            if forgiving and status.main_pid and node.kubelet.diverted():
                return
            next_look = now + LOOK_AT_UNIT_SECONDS
        if now >= deadline:
            if forgiving and node.services.status(unit).main_pid and is_deaf(read_log(node, unit)):
                return
            raise _did_not_start(node, unit, f"did not become healthy within {timeout:.0f} s", errors)
        node.clock.sleep(POLL_SECONDS)


def require_stays_up(node: Node, unit: str) -> None:
    """Return once the kubelet has run for a while, or somebody has stopped it.

    One that systemd starts again at once is never seen to be down.

    Raises:
        StepFailed: it has exited instead.
    """
    before: AwakeTime | None = None
    while (status := node.services.status(unit)).sub_state != "auto-restart" and status.active_state != "failed":
        if status.started is None or node.clock.awake() >= status.started + STAYS_UP_SECONDS:
            return
        if before not in {None, status.started}:
            break
        before = status.started
        node.clock.sleep(LOOK_AT_UNIT_SECONDS)
    raise _did_not_start(node, unit, f"became healthy, but exits ({status.active_state}, result {status.result})", "")


def _did_not_start(node: Node, unit: str, what: str, earlier: str) -> StepFailed:
    """Return the error, with the last errors that this kubelet logged, or else an ``earlier`` start."""
    errors = last_errors(read_log(node, unit)) or earlier
    return StepFailed(f"the kubelet {what}; see journalctl -u {unit}{errors}", reason=Reason.KUBELET_DID_NOT_START)
