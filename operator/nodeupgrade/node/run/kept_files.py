"""Put files back where no space is left on their disk, by renaming what was kept of them.

Whoever runs a pod may fill a disk, and while no kubelet runs, none evicts the pod. A rename takes no space.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan


def keep(node: Node, plan: RunPlan, path: str, content: bytes | None) -> None:
    """Keep a copy of a file, before anything is written in its place, if it has the content to put back.

    A second name would do, but a state file that has one counts as a pod's, and to lose one changes a file's times.

    Raises:
        StepFailed: there is no space for it, as later there would be none to put the file back.
    """
    kept = plan.kept().get(path)
    if content is not None and kept is not None and node.files.read(PurePosixPath(path)) == content:
        node.files.copy(PurePosixPath(path), PurePosixPath(kept))


def put_back(node: Node, plan: RunPlan, path: str, content: bytes, write: Callable[[], None]) -> None:
    """Put a file back by ``write``, or else by what was kept of it.

    Raises:
        StepFailed: it cannot be written, and was not kept.
    """
    kept = plan.kept().get(path)
    try:
        write()
    except StepFailed:
        if kept is None or node.files.read(PurePosixPath(kept)) != content:
            raise
        rename(node, kept, path)
    else:
        if kept is not None:
            with suppress(StepFailed):
                node.files.remove(PurePosixPath(kept))


def rename(node: Node, kept: str, path: str) -> None:
    """Put a kept file in its place, and leave it that one name: to lose another would later look like a change."""
    node.files.replace(PurePosixPath(kept), PurePosixPath(path))
    node.files.remove(PurePosixPath(kept))
