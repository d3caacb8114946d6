"""Detects which kubelets may have written the hashes stored on a node."""

from collections.abc import Iterable, Mapping

from .changes import known_kubelets
from .errors import UnhashableContainer
from .hashing import hash_container
from .version import KubeletVersion


def detect(stored: Iterable[tuple[Mapping[str, object], str]]) -> tuple[KubeletVersion, ...]:
    """Return the minors that reproduce all given hashes, oldest first; empty if no single minor does.

    A kubelet that compares a stored hash either finds it equal or restarts the container. So one minor normally
    explains all containers of a node. An empty result means that several kubelets wrote the hashes, or that a spec
    changed since.

    Args:
        stored: pairs of a container as the API serves it and its `io.kubernetes.container.hash`.
    """
    minors = list(known_kubelets())
    for container, value in stored:
        wanted = _number(value)
        minors = [minor for minor in minors if wanted is not None and _hashed(container, minor) == wanted]
        if not minors:
            break
    return tuple(minors)


def _hashed(container: Mapping[str, object], kubelet: KubeletVersion) -> int | None:
    try:
        return int(hash_container(container, kubelet), 16)
    except UnhashableContainer:
        return None


def _number(value: str) -> int | None:
    """Parse a stored hash as kubelets do: case and leading zeros do not matter."""
    try:
        return int(value, 16)
    except ValueError:
        return None
