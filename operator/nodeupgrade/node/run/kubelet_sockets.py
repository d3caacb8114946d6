"""The sockets that a starting kubelet makes where pods may write: it exits where it cannot replace what lies there.

So it does where it cannot make its directories for logs.
"""

from contextlib import suppress
from itertools import chain
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import log_directories, sockets_beside
from nodeupgrade.node.facts.kubelet_files import crowded, irreplaceable, misplaced_logs
from nodeupgrade.node.host.files import made_directories
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import kubelet_state


def require_replaceable(node: Node, plan: RunPlan) -> None:
    """Require a kubelet to be able to make its sockets, and soon, and its directories for logs.

    Raises:
        StepFailed: something else lies in the place of one, or too much beside a socket.
    """
    sockets, logs = sockets_beside(plan.state_files), misplaced_logs(node.files, plan.logs)
    for path, why in chain(irreplaceable(node.files, sockets), logs, crowded(node.files, sockets)):
        raise StepFailed(f"{path} {why}", reason=Reason.KUBELET_WOULD_NOT_START)


def make_way(node: Node, plan: RunPlan) -> str | None:
    """Move aside or remove what a kubelet may not start with; return what was done."""
    done = list[str]()
    for socket in sockets_beside(plan.state_files):
        with suppress(StepFailed):
            done += [_put_away(node, path) for path, _ in irreplaceable(node.files, (socket,))]
    for directory in log_directories(plan.logs):
        with suppress(StepFailed):
            if (aside := made_directories.make_way(node.files, directory)) is not None:
                done.append(f"what lay in the way of {directory}, which is no directory, was moved to {aside}")
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
