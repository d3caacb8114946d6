"""The sockets that a starting kubelet makes where pods may write: it exits where it cannot replace what lies there."""

from contextlib import suppress

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import sockets_beside
from nodeupgrade.node.facts.kubelet_files import irreplaceable
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import file_exchange


def require_replaceable(node: Node, plan: RunPlan) -> None:
    """Require a kubelet to be able to make its sockets.

    Raises:
        StepFailed: something else lies in the place of one.
    """
    for path, why in irreplaceable(node.files, sockets_beside(plan.state_files)):
        raise StepFailed(f"{path} {why}", reason=Reason.KUBELET_WOULD_NOT_START)


def make_way(node: Node, plan: RunPlan) -> str | None:
    """Move aside what no kubelet starts with; return what was moved."""
    moved = list[str | None]()
    for path, _ in irreplaceable(node.files, sockets_beside(plan.state_files)):
        with suppress(StepFailed):
            moved.append(file_exchange.set_aside(node, path))
    return "; ".join(filter(None, moved)) or None
