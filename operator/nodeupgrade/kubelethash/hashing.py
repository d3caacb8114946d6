"""Computes the kubelet's container hash for every minor that the tables cover.

Follows `HashContainer` in `pkg/kubelet/container/helpers.go` and `DeepHashObject` in `pkg/util/hash`.
"""

import zlib
from collections.abc import Iterable, Mapping

from . import changes
from .changes import Era, era_of_minor, known_kubelets, supported_minor
from .errors import Misfit, UnhashableContainer, UnsupportedKubelet
from .go import gojson, spew, values
from .go.digest import HashValue, fnv1a, fnv1a_of_printed_bytes, stored_form
from .version import KubeletVersion


def hash_container(container: Mapping[str, object], kubelet: KubeletVersion | str) -> HashValue:
    """Return the `io.kubernetes.container.hash` that a kubelet computes for a container of an API pod.

    Args:
        container: one entry of the pod's `containers` or `initContainers`, as the API serves it. Fields that the
            kubelet does not know, nulls, and empty lists and maps count as absent, since they do not reach a kubelet.
        kubelet: the kubelet's version.

    Raises:
        UnsupportedKubelet: the tables do not cover this kubelet.
        UnhashableContainer: the container has a field whose hash is not certain.
    """
    return _hash(container, supported_minor(kubelet), manifest=False)


def hash_manifest_container(container: Mapping[str, object], kubelet: KubeletVersion | str) -> HashValue:
    """Return the hash as `hash_container` does, for a static pod's container from `default_static_container`.

    A kubelet reads manifests directly, not through protobuf. So in eras A and B an empty list differs from none, and
    resource quantities are rounded up to a thousandth.

    Raises:
        UnsupportedKubelet, UnhashableContainer: as for `hash_container`.
    """
    return _hash(container, supported_minor(kubelet), manifest=True)


def hash_without_resources(container: Mapping[str, object], kubelet: KubeletVersion | str) -> HashValue:
    """Return the `io.kubernetes.container.hashWithoutResources` (1.27-1.30, kubernetes #102884 to #124220).

    Kubelets store and compare it only with the feature gate InPlacePodVerticalScaling turned on.

    Raises:
        UnsupportedKubelet: this minor has no such hash.
        UnhashableContainer: as for `hash_container`.
    """
    minor = supported_minor(kubelet)
    if not changes.RESOURCELESS_HASH.covers(minor):
        version, only = str(KubeletVersion.of(kubelet)), changes.RESOURCELESS_HASH
        reason = f"only kubelets {only.since} to 1.{only.last} hash a container without its resources"
        raise UnsupportedKubelet(version, reason)
    return _hash({**container, "resources": {}}, minor, manifest=False)


def _hash(container: object, minor: int, *, manifest: bool) -> HashValue:
    try:
        return stored_form(_checksum(values.mapping(container), minor, manifest=manifest))
    except Misfit as error:
        name = container.get("name") if isinstance(container, Mapping) else None
        raise UnhashableContainer(name if isinstance(name, str) else "", error.path, error.reason) from None


def _checksum(container: Mapping[str, object], minor: int, *, manifest: bool) -> int:
    match era_of_minor(minor):
        case Era.A:
            return zlib.adler32(spew.container_text(container, minor, manifest=manifest))
        case Era.B:
            return fnv1a(spew.container_text(container, minor, manifest=manifest))
        case Era.C:
            return fnv1a_of_printed_bytes(gojson.container_json(container, minor, manifest=manifest))
        case Era.D:
            return fnv1a_of_printed_bytes(gojson.name_and_image_json(container.get("name"), container.get("image")))


# Which kubelets may have written the hashes stored on a node.


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


def by_writer(writers: Iterable[tuple[KubeletVersion, ...]]) -> tuple[tuple[tuple[KubeletVersion, ...], int], ...]:
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
