"""Settings of the kernel while no kubelet runs: what pods have of its limits, or of files, keeps nothing from starting.

Whatever a pod has used up, it keeps. Once nobody can begin a process any more, systemd starts neither kubelet nor
executor, and no thread is left to undo anything. So the limits are raised before, and bound nobody but by memory.

A pod of the superuser that may read a file can have a lease on it (fcntl(2)), and whoever opens it waits for 45 s.
Nobody gets a new one, and those that there are end a second after the file is opened.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kernel_limits import LIMITS, NEEDED, path_of
from nodeupgrade.text import number, trimmed

LEASES = {"fs.leases-enable": 0, "fs.lease-break-time": 1}
"""The kernel takes 0 seconds for no limit."""
WANTED: Mapping[str, int] = {**LEASES, **LIMITS}


def save(node: Node) -> dict[str, JsonValue]:
    """Return the settings by path, for the other functions. What the kernel does not have is left alone."""
    return {str(path): value for path in map(path_of, WANTED) if (value := _read(node, path)) is not None}


def change(node: Node, saved: Mapping[str, JsonValue]) -> None:
    """Set what is wanted while no kubelet runs."""
    for name, wanted in WANTED.items():
        before = saved.get(str(path_of(name)))
        if isinstance(before, int) and (name in LEASES or before < wanted):
            _write(node, name, wanted)


def restore(node: Node, saved: Mapping[str, JsonValue]) -> None:
    """Restore the settings, unless somebody has changed them meanwhile; not a limit below which no room is left."""
    restored = set[str]()
    for name, wanted in WANTED.items():
        before = saved.get(str(path_of(name)))
        if isinstance(before, int) and before != wanted and _read(node, path_of(name)) == wanted:
            _write(node, name, before)
            restored.add(name)
    while (exceeded := node.kubelet.used_up_limit(NEEDED)) in restored:
        restored.discard(exceeded)
        _write(node, exceeded, WANTED[exceeded])


def raised_since(node: Node, saved: Mapping[str, JsonValue]) -> str:
    """Return what is to be appended to a message about limits that could not be restored; empty if all were."""
    found = [(path_of(name), saved.get(str(path_of(name))), raised) for name, raised in LIMITS.items()]
    told = [
        f"{path} from {was} to {raised}"
        for path, was, raised in found
        if isinstance(was, int) and was < raised and _read(node, path) == raised
    ]
    if not told:
        return ""
    return f"; limits of the kernel were used up and stay raised until the next boot: {', '.join(told)}"


def _read(node: Node, path: PurePosixPath) -> int | None:
    with suppress(StepFailed):
        return number(trimmed((node.files.read(path) or b"").decode(errors="replace")))
    return None


def _write(node: Node, name: str, value: int) -> None:
    if _read(node, path_of(name)) != value:
        with suppress(StepFailed):  # perhaps nobody has used it up; or it only takes longer
            node.files.write_kernel(path_of(name), f"{value}\n".encode())
