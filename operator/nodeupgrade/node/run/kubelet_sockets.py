"""The sockets that a starting kubelet makes where pods may write: it exits where it cannot replace what lies there."""

from contextlib import suppress
from itertools import chain
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import sockets_beside
from nodeupgrade.node.facts.kubelet_files import crowded, irreplaceable
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import kubelet_state


def require_replaceable(node: Node, plan: RunPlan) -> None:
    """Require a kubelet to be able to make its sockets, and soon.

    Raises:
        StepFailed: something else lies in the place of one, or too much beside it.
    """
    sockets = sockets_beside(plan.state_files)
    for path, why in chain(irreplaceable(node.files, sockets), crowded(node.files, sockets)):
        raise StepFailed(f"{path} {why}", reason=Reason.KUBELET_WOULD_NOT_START)


def make_way(node: Node, plan: RunPlan) -> str | None:
    """Move a directory aside, and remove anything else that a kubelet may not start with; return what was done."""
    done = list[str]()
    for socket in sockets_beside(plan.state_files):
        with suppress(StepFailed):
            done += [_put_away(node, path) for path, _ in irreplaceable(node.files, (socket,))]
    return "; ".join([*done, *remove_links(node, plan)]) or None


def _put_away(node: Node, path: PurePosixPath) -> str:
    aside = kubelet_state.set_directory_aside(node, str(path))
    if aside is None:
        node.files.write_state(path, None, path.parent)
    return f"what lay at {path}, which is no socket, was {'removed' if aside is None else f'moved to {aside}'}"


def remove_links(node: Node, plan: RunPlan) -> tuple[str, ...]:
    """Remove the symbolic links beside the sockets, and return sentences about it.

    A starting kubelet may follow them, to a file server that does not answer, too. Many kubelets remove them.
    """
    removed = dict[PurePosixPath, int]()
    for directory in sorted({path.parent for path in sockets_beside(plan.state_files)}):
        with suppress(StepFailed):
            removed[directory] = node.files.remove_links(directory)
    return tuple(f"symbolic links in {path} were removed: {number}" for path, number in removed.items() if number)
