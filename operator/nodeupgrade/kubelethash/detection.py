"""Which kubelets may have written the hashes stored on a node."""

from collections.abc import Iterable, Mapping

from .changes import known_kubelets
from .errors import UnhashableContainer
from .hashing import hash_container
from .kubelet_version import KubeletVersion


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


def group_by_writer(
    writers: Iterable[tuple[KubeletVersion, ...]],
) -> tuple[tuple[tuple[KubeletVersion, ...], int], ...]:
    """Return few groups of kubelets that wrote all hashes, and the number of hashes of each, the most first.

    Args:
        writers: for each hash, the minors that reproduce it; hashes that none reproduces do not count.
    """
    left, groups = [each for each in writers if each], []
    while left:
        most = max(known_kubelets(), key=lambda kubelet: (sum(kubelet in each for each in left), kubelet))
        of_it = [each for each in left if most in each]
        groups.append((tuple(kubelet for kubelet in of_it[0] if all(kubelet in each for each in of_it)), len(of_it)))
        left = [each for each in left if most not in each]
    return tuple(groups)


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
