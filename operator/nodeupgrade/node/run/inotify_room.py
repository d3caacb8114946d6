"""Inotify during a run: what a stopped kubelet gives up, any pod that runs as the superuser may take."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.inotify_limits import DIRECTORY, NEEDED, RAISED
from nodeupgrade.text import number, trimmed


def save(node: Node) -> dict[str, JsonValue]:
    """Return the kernel's limits by path, for `raised_since`."""
    return {str(path): limit for path, limit in _limits(node)}


def make_room(node: Node) -> bool:
    """Raise the limits if too little is left, ever more if it is used up again: it serves who is about to start.

    Report whether any was raised.
    """
    if (exceeded := node.kubelet.used_up_inotify(NEEDED)) is None:
        return False
    raised = False
    for path, limit in _limits(node):
        wanted = max(RAISED[path.name], 2 * limit if path.name == exceeded else limit)
        with suppress(StepFailed):  # perhaps there is room once it starts
            if wanted > limit:
                node.files.write_kernel(path, f"{wanted}\n".encode())
                raised = True
    return raised


def raised_since(node: Node, saved: Mapping[str, JsonValue]) -> str | None:
    """Return a sentence about limits that are higher than they were."""
    found = ((path, saved.get(str(path)), limit) for path, limit in _limits(node))
    told = [f"{path} from {was} to {limit}" for path, was, limit in found if isinstance(was, int) and was < limit]
    return f"inotify was used up, so limits were raised until the next boot: {', '.join(told)}" if told else None


def _limits(node: Node) -> Iterator[tuple[PurePosixPath, int]]:
    for path in (DIRECTORY / name for name in RAISED):
        with suppress(StepFailed):
            if (limit := number(trimmed((node.files.read(path) or b"").decode(errors="replace")))) is not None:
                yield path, limit
