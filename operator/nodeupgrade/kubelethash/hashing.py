"""Computes the kubelet's container hash for every minor that the tables cover.

Follows `HashContainer` in `pkg/kubelet/container/helpers.go` and `DeepHashObject` in `pkg/util/hash`.
"""

import zlib
from collections.abc import Mapping

from . import changes
from .changes import Era, era_of_minor, supported_minor
from .errors import Misfit, UnhashableContainer, UnsupportedKubelet
from .go import gojson, spew, values
from .go.digest import HashValue, fnv1a, fnv1a_of_printed_bytes, stored_form
from .kubelet_version import KubeletVersion


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
