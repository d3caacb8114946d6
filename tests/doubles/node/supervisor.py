"""What systemd does for the executor: restarts it when it is gone, and starts it before the kubelet after a reboot."""

from collections.abc import Callable
from dataclasses import replace

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.journal.continued_journal import ContinuedJournal
from nodeupgrade.node.journal.journal import parse
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_store import JOURNAL, volatile
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.run import NodeRun, fence_after_reboot
from tests.doubles.node.calls import Crash
from tests.doubles.node.simulated import SimulatedNode

ATTEMPTS = 12
RESTART_SECONDS = 1.0


def supervise(node: SimulatedNode, plan: RunPlan, *, abort: Callable[[], bool] = lambda: False) -> RunReport | None:
    """Start the executor until a run has ended.

    Returns:
        The report; ``None`` after so many starts that it will not end by itself.
    """
    node.shield.plan = plan
    node.shield.amended = lambda plan: plan_in_effect(plan, parse(node.journal.data)[0])
    for _ in range(ATTEMPTS):
        try:
            copy, boot = volatile(JOURNAL, plan.run_id), node.ports.clock.boot()
            journal = ContinuedJournal(node.journal, node.files, copy, boot)
            fence_after_reboot(node.ports, plan, journal.load())
            return NodeRun(node=replace(node.ports, abort=abort), plan=plan, store=journal).carry_out()
        except Crash as crash:
            node.timeline.advance(crash.frozen)
            if crash.reboot:
                reboot(node, plan)
        except StepFailed:
            pass
        node.timeline.advance(RESTART_SECONDS)
    return None


def reboot(node: SimulatedNode, plan: RunPlan) -> None:
    """Lose power and boot.

    The kubelet's unit waits until the executor has examined the node, or has failed to: then it starts anyway.
    """

    def executor() -> bool:
        try:
            fence_after_reboot(node.ports, plan, node.journal.load())
        except StepFailed:
            return False
        except Crash as crash:
            if crash.reboot:
                raise
            return False
        return True

    while True:
        node.power_off()
        try:
            return node.power_on(before_kubelet=executor)
        except Crash:
            continue
