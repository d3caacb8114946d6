"""Last preparations: what brings a lost executor, or the old kubelet, back; and what systemd has to read ahead of time.

That is the kubelet's fence, and how the runtime is restarted: reading unit files takes too long without a kubelet.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run import rescue_script
from nodeupgrade.engine.node import lease, restart_tuning
from nodeupgrade.engine.node.evidence.instances import require_planned
from nodeupgrade.engine.node.node import DEAD_MAN_TIMER, Node
from nodeupgrade.engine.node.rescue import lay_down


def prepare(_node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Nothing has to be remembered; what is done about the runtime's restart is for people."""
    return {"tuning": plan.tuning.why}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Start the timers, and have systemd read what it has to while that costs no kubelet time.

    What is not as planned any more is found before the kubelet stops; and the look at it then knows every process.
    """
    require_planned(node, plan)
    lease.keep(node, plan)  # early: while it starts, it takes a processor for a tenth of a second
    lay_down(node, plan)
    node.services.start(DEAD_MAN_TIMER)
    node.services.start(rescue_script.TIMER)
    restart_tuning.give(node, plan)
    node.services.prepare_mask(plan.swap.unit)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Stop the timers: nothing is left that they would have to bring to an end."""
    node.services.unmask(plan.swap.unit)
    for timer in (rescue_script.TIMER, DEAD_MAN_TIMER):
        if node.services.status(timer).load_state != "not-found":  # a reboot takes the rescue's away
            node.services.stop(timer)
    lease.release(node, plan)
    node.files.remove(rescue_script.SCRIPT)
    if plan.tuning.files:
        restart_tuning.take_back(node.files, node.services, node.runtime.kind)


def is_done(_node: Node, _plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Do it again after an interruption."""
    return False
