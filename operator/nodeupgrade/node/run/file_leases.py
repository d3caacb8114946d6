"""Leases on files (fcntl(2)): a pod of the superuser that may read a file can have whoever opens it wait for 45 s.

While no kubelet runs, nobody gets a new one, and those that there are end a second after the file is opened.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.text import number, trimmed

DIRECTORY = PurePosixPath("/proc/sys/fs")
LIMITS = {"leases-enable": 0, "lease-break-time": 1}
"""The kernel takes 0 seconds for no limit."""


def save(node: Node) -> dict[str, JsonValue]:
    """Return the kernel's settings by path, for `allow_again`."""
    return {str(path): value for path, _ in _wanted() if (value := _read(node, path)) is not None}


def forbid(node: Node, saved: Mapping[str, JsonValue]) -> None:
    """Let no lease keep anybody waiting."""
    for path, wanted in _wanted():
        _write(node, path, wanted if str(path) in saved else None)


def allow_again(node: Node, saved: Mapping[str, JsonValue]) -> None:
    """Restore the settings, unless somebody has changed them meanwhile."""
    for path, wanted in _wanted():
        before = saved.get(str(path))
        _write(node, path, before if isinstance(before, int) and _read(node, path) == wanted else None)


def _wanted() -> tuple[tuple[PurePosixPath, int], ...]:
    return tuple((DIRECTORY / name, value) for name, value in LIMITS.items())


def _read(node: Node, path: PurePosixPath) -> int | None:
    with suppress(StepFailed):
        return number(trimmed((node.files.read(path) or b"").decode(errors="replace")))
    return None


def _write(node: Node, path: PurePosixPath, value: int | None) -> None:
    if value is not None and _read(node, path) != value:
        with suppress(StepFailed):  # it only takes longer
            node.files.write_kernel(path, f"{value}\n".encode())
