"""Which kubelets may have written the hashes that a node stores."""

from collections.abc import Iterable, Mapping

from .changes import known_kubelets
from .errors import UnhashableContainer
from .hashing import hash_container
from .version import KubeletVersion


def detect(stored: Iterable[tuple[Mapping[str, object], str]]) -> tuple[KubeletVersion, ...]:
    """The minors that reproduce all given hashes, oldest first; empty when no single one does.

    A container keeps the hash of the kubelet that created it until a kubelet that compares it is satisfied or restarts
    it. One minor for all containers of a node is therefore the rule; none means several kubelets wrote them, or
    a spec changed since.

    Args:
        stored: each container as the API serves it, with the value of its `io.kubernetes.container.hash`.
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
    """The stored value as kubelets read it: case and leading zeros do not matter."""
    try:
        return int(value, 16)
    except ValueError:
        return None
