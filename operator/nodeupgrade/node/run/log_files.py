"""The logs of containers: a runtime that opens them when it starts does not know a container whose log it cannot open.

For the reader of a FIFO, it waits without end. Pods that collect logs may write where they are.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import EntryKind, Misplaced
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan

_LOG = re.compile(r"[0-9]+\.log", re.ASCII)
_SEPARATORS = 2
"""In the name of the directory of a pod: of its namespace, its name and its UID."""


def in_the_way(node: Node, plan: RunPlan, *, every: bool) -> tuple[Misplaced, ...]:
    """Return what keeps a starting runtime from opening the logs of planned containers, or of ``every`` other, too."""
    if not node.runtime.kind.opens_logs:
        return ()
    root = PurePosixPath(plan.logs)
    try:
        real = node.files.follow(root)
        entry = node.files.entry(real) or node.files.entry(root)
    except StepFailed:  # links that lead to each other, for example
        return (Misplaced(path=root, what="cannot be followed"),)
    if entry is not None and entry.kind is not EntryKind.DIRECTORY:
        return (Misplaced(path=root, what="leads to no directory"),)
    found = dict[PurePosixPath, Misplaced]()
    for log in dict.fromkeys((*_planned(plan), *(_there(node, real) if every else ()))):
        with suppress(StepFailed):  # perhaps it can be opened
            if (misplaced := node.files.misplaced(real / log, real)) is not None:
                found[misplaced.path] = misplaced
    return tuple(found.values())


def put_away(node: Node, places: Iterable[Misplaced]) -> PurePosixPath | None:
    """Move it aside; return where the first of it is now, ``None`` if nothing was moved."""
    moved = list[PurePosixPath]()
    for each in places:
        with suppress(StepFailed):
            moved += filter(None, (node.files.set_aside(each.path, but=None),))
    return moved[0] if moved else None


def _planned(plan: RunPlan) -> Iterator[PurePosixPath]:
    for container in plan.baseline.running():  # those of pods that need not survive as well
        pod = container.pod
        yield PurePosixPath(f"{pod.namespace}_{pod.name}_{pod.uid}", container.name, f"{container.attempt}.log")


def _there(node: Node, root: PurePosixPath) -> Iterator[PurePosixPath]:
    """Yield the logs that are there, and what would be one if a file were no file, or a directory."""
    with suppress(StepFailed):
        for pod in (name for name in node.files.names(root) if name.count("_") >= _SEPARATORS):
            for container in node.files.names(root / pod) or ("",):
                yield PurePosixPath(pod, container, "0.log")
                logs = filter(_LOG.fullmatch, node.files.names(root / pod / container))
                yield from (PurePosixPath(pod, container, log) for log in logs)
