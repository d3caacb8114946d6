"""Room below the kernel's limits during a run: what a stopped kubelet gives up, any pod may take, and keep."""

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kernel_limits import NEEDED, RAISED, path_of
from nodeupgrade.text import number, trimmed


def save(node: Node) -> dict[str, JsonValue]:
    """Return the kernel's limits by path, for `raised_since`."""
    return {str(path): limit for path, limit in _limits(node)}


def make_room(node: Node, limits: Container[str] = RAISED) -> bool:
    """Raise each of these limits that leaves too little, ever more if it is used up again.

    By default, for who is about to start. Report whether any was raised.
    """
    raised = False
    for _ in RAISED:
        exceeded = node.kubelet.used_up_limit(NEEDED)
        if exceeded is None or exceeded not in limits or not _raise(node, exceeded):
            break
        raised = True
    return raised


def raised_since(node: Node, saved: Mapping[str, JsonValue]) -> str:
    """Return what is to be appended to a message about limits that are higher than they were; empty if none is."""
    found = ((path, saved.get(str(path)), limit) for path, limit in _limits(node))
    told = [f"{path} from {was} to {limit}" for path, was, limit in found if isinstance(was, int) and was < limit]
    return f"; limits of the kernel were used up, and are raised until the next boot: {', '.join(told)}" if told else ""


def _raise(node: Node, name: str) -> bool:
    path = path_of(name)
    if (limit := _read(node, path)) is None:
        return False
    wanted = max(RAISED[name], 2 * limit)
    with suppress(StepFailed):  # perhaps there is room once it starts
        node.files.write_kernel(path, f"{wanted}\n".encode())
        return True
    return False


def _limits(node: Node) -> Iterator[tuple[PurePosixPath, int]]:
    for path in map(path_of, RAISED):
        if (limit := _read(node, path)) is not None:
            yield path, limit


def _read(node: Node, path: PurePosixPath) -> int | None:
    with suppress(StepFailed):
        return number(trimmed((node.files.read(path) or b"").decode(errors="replace")))
    return None
