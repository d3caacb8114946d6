"""The supported container runtimes. Each has an adapter, which a test ensures."""

from enum import StrEnum


class SupportedRuntime(StrEnum):
    """Runtimes by their name in the CRI and in a Node's ``containerRuntimeVersion``."""

    CONTAINERD = "containerd"
    DOCKER = "docker"
    CRIO = "cri-o"


STOPPED = frozenset({SupportedRuntime.DOCKER})
"""Those that are stopped for their hashes to be written, and have no socket that a shield could take."""


def treatment(name: str) -> str:
    """Return what a run does to a runtime of that name, for messages."""
    if not is_supported(name):
        return "not supported"
    return "stopped and started once, without a shield" if name in STOPPED else "restarted once"


def is_supported(name: str) -> bool:
    """Report whether nodes with a runtime of that name can be upgraded."""
    return name in set(SupportedRuntime)


def supported_runtimes() -> str:
    """Return a clause that names all supported runtimes, for messages."""
    *others, last = SupportedRuntime
    return f"{', '.join(others)} and {last} are supported" if others else f"{last} is supported"
