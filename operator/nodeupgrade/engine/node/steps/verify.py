"""Verify, for the settle period, that the new kubelet stays healthy and changes no instance.

The first seconds are the most dangerous: every pod is admitted and synchronised again. Damage ends the step at once, so
that the kubelet is stopped while little is lost. Nothing on the node shows that a kubelet has synchronised every pod;
see docs/decisions/settle-period.md for what was examined.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.evidence import LOOK_SECONDS, are_back
from nodeupgrade.engine.node.node import Node
from nodeupgrade.engine.node.watch import Watch

LOOK_AT_KUBELET_SECONDS = 1.0
UNHEALTHY_LOOKS_TOLERATED = 5
OUTCOME_SECONDS = 60.0
"""How long after the settle period a call may wait at the shield: one that cannot be written down waits for ever."""


def prepare(_node: Node, _plan: RunPlan) -> dict[str, JsonValue]:
    """Return nothing: ``undo`` needs nothing."""
    return {}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Watch containers and kubelet until the settle period is over; look thoroughly at its end."""
    watch = Watch.from_now(node, plan)
    pid = node.services.status(plan.swap.unit).main_pid
    began = next_look = node.clock.awake()
    end = next_look + plan.limits.settle
    unwell = 0
    waits_since: AwakeTime | None = None
    while True:
        if node.abort():
            raise StepFailed("the run was asked to abort while it settled", reason=Reason.ABORTED)
        watch()
        if node.clock.awake() >= next_look:
            _require_same_process(node, plan, pid)
            unwell = 0 if node.kubelet.healthy() else unwell + 1
            if unwell > UNHEALTHY_LOOKS_TOLERATED:
                raise StepFailed(
                    f"the kubelet was unhealthy in {unwell} looks in a row", reason=Reason.VERIFICATION_FAILED
                )
            next_look += LOOK_AT_KUBELET_SECONDS
        if node.clock.awake() >= end and not unwell and watch.content(thorough=True) and not _waits(node, plan):
            watch()  # a call that waited may have been refused
            if are_back(node, plan, since=began):
                return
        waits_since = (waits_since or node.clock.awake()) if _waits(node, plan) else None
        if waits_since is not None and node.clock.awake() >= max(end, waits_since) + OUTCOME_SECONDS:
            raise StepFailed(
                "a call waits at the shield, and whether it was refused is not known", reason=Reason.SHIELD_HELD
            )
        node.clock.sleep(LOOK_SECONDS)


def undo(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Do nothing: the step changes nothing."""


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Watch the whole period again after an interruption."""
    return False


def _waits(node: Node, plan: RunPlan) -> bool:
    """Report whether the shield holds back a call that may have to be refused."""
    return plan.shield is not None and node.shield.waiting() > 0


def _require_same_process(node: Node, plan: RunPlan, pid: int) -> None:
    status = node.services.status(plan.swap.unit)
    if not pid or status.main_pid != pid:
        since = f", and runs again as process {status.main_pid}" if status.main_pid else ""
        raise StepFailed(
            f"the kubelet became healthy and exited during the settle period{since}; see journalctl -u {status.name}",
            reason=Reason.VERIFICATION_FAILED,
        )
