"""The container runtimes of which nodes can be upgraded; an adapter stands behind each, and a test sees to that."""

from enum import StrEnum


class SupportedRuntime(StrEnum):
    """Runtimes by the name that the CRI and a Node's ``containerRuntimeVersion`` give them."""

    CONTAINERD = "containerd"


def is_supported(name: str) -> bool:
    """Whether nodes with a runtime of that name can be upgraded."""
    return name in set(SupportedRuntime)


def supported_runtimes() -> str:
    """All of them in words, as the subject of a sentence."""
    *others, last = SupportedRuntime
    return f"{', '.join(others)} and {last} are supported" if others else f"{last} is supported"
