"""What a run keeps in ``/run`` and depends on later: made again if somebody removes it, as a cleaning tool may.

Everything else is done without: a lost executor is started from what remains, and a lost rescue script by nobody.
"""

from contextlib import suppress

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import reload_look, restart_tuning


def make_again(node: Node, plan: RunPlan, journal: Journal) -> None:
    """Put back what is missing; looks at a few paths if nothing is. A failure is tried again before the next step.

    So is what would take a device from a container while systemd reads its files. Whatever it fails on: an executor
    that ends here each time it is started would leave the node without a kubelet.
    """
    with suppress(Exception):
        unit = plan.swap.unit
        if _is_fenced(journal) and None in map(node.files.stamp, (fence.flag(unit), fence.drop_in(unit))):
            node.services.mask(unit, reload_look.harmless(node))
    with suppress(Exception):
        if journal.mark(Step.ARM_DEAD_MAN) is Mark.DONE:
            restart_tuning.restore_tuning(node, plan, reload_look.harmless(node))


def _is_fenced(journal: Journal) -> bool:
    """Report whether the fence has to be up: from the stop of one kubelet to the start of another, or the same."""
    stopped = journal.mark(Step.STOP_KUBELET) in {Mark.DONE, Mark.HELD}
    return stopped and journal.mark(Step.START_KUBELET) in {None, Mark.UNDONE}
