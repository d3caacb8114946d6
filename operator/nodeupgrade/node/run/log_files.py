"""The logs of containers: a runtime that opens them when it starts does not know a container whose log it cannot open.

For the reader of a FIFO, it waits without end. Pods that collect logs may write where they are.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TypeAlias

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import EntryKind
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan

Place: TypeAlias = tuple[PurePosixPath, EntryKind]
"""A path, and the type of what belongs there."""


def in_the_way(node: Node, plan: RunPlan) -> tuple[Place, ...]:
    """Return where something else lies than the logs of containers, or the directories in which they are."""
    if not node.runtime.kind.opens_logs:
        return ()
    return tuple(dict.fromkeys(place for place in _places(plan) if not _fits(node, *place)))


def put_away(node: Node, places: Iterable[Place]) -> PurePosixPath | None:
    """Move aside what lies in such places; return where the first of it is now, ``None`` if nothing was moved."""
    moved = list[PurePosixPath]()
    for path, kind in places:
        with suppress(StepFailed):  # perhaps it can be opened
            moved += filter(None, (node.files.set_aside(path, but=kind),))
    return moved[0] if moved else None


def _places(plan: RunPlan) -> Iterator[Place]:
    for container in plan.baseline.running():  # those of pods that need not survive as well
        pod = container.pod
        of_pod = PurePosixPath(plan.logs) / f"{pod.namespace}_{pod.name}_{pod.uid}"
        yield of_pod, EntryKind.DIRECTORY
        yield of_pod / container.name, EntryKind.DIRECTORY
        yield of_pod / container.name / f"{container.attempt}.log", EntryKind.FILE


def _fits(node: Node, path: PurePosixPath, kind: EntryKind) -> bool:
    try:
        entry = node.files.entry(node.files.follow(path) if kind is EntryKind.DIRECTORY else path)
    except StepFailed:  # links that lead to each other, for example
        return False
    return entry is None or entry.kind is kind
