"""Replaces the hashes in a container's stored metadata and leaves every other byte unchanged.

containerd's CRI plugin keeps a container's configuration as JSON in a ``google.protobuf.Any`` under the extension
key ``io.cri-containerd.container.metadata`` of the container's record; type URL, version and shape are the same
from containerd 1.4 to 2.3. containerd does not validate such a document when it is stored, but a container whose
document it cannot read vanishes from the CRI at its next start. So the document is never parsed and serialized
again: two strings are replaced in the bytes, and everything else is proven to be unchanged.
"""

import json
from typing import Any

from nodeupgrade.adapters.cri.annotations import HASH, HASH_KEY, HASH_WITHOUT_RESOURCES_KEY, changed
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.kubelethash import HashValue

EXTENSION = "io.cri-containerd.container.metadata"
TYPE_URL = "github.com/containerd/cri/pkg/store/container/Metadata"
VERSION = "v1"


class OddMetadata(StepFailed):
    """Stored metadata has an unknown form and must not be changed."""


def read_hashes(container_id: ContainerId, type_url: str, data: bytes) -> StoredHashes:
    """Return the hash annotations of a stored document, after proving that they can be replaced.

    Raises:
        OddMetadata: the document is not what containerd's CRI plugin writes for this container.
    """
    if type_url != TYPE_URL:
        raise _odd(container_id, f"its type is {type_url!r}, not {TYPE_URL!r}")
    annotations = _annotations(container_id, _parsed(container_id, data))
    return StoredHashes(
        container=_value(container_id, data, annotations, HASH_KEY),
        without_resources=_value(container_id, data, annotations, HASH_WITHOUT_RESOURCES_KEY),
    )


def rewritten(container_id: ContainerId, type_url: str, data: bytes, wanted: StoredHashes) -> bytes:
    """Return the document with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

    Raises:
        OddMetadata: as for read_hashes(), or a wanted value is not a hash.
    """
    stored = read_hashes(container_id, type_url, data)
    result = data
    try:
        for key, old, new in changed(stored, wanted):
            result = result.replace(_needle(key, old), _needle(key, new))
    except ValueError as error:
        raise _odd(container_id, str(error)) from error
    _prove_only_hashes_differ(container_id, data, result)
    return result


def _parsed(container_id: ContainerId, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _odd(container_id, f"it is not JSON ({error})") from error
    match document:
        case {"Version": version, "Metadata": {"ID": stored_id}}:
            if version != VERSION:
                raise _odd(container_id, f"its version is {version!r}, not {VERSION!r}")
            if stored_id != container_id:
                raise _odd(container_id, f"it belongs to container {stored_id}")
            return dict(document)
        case _:
            raise _odd(container_id, "it has no Version, Metadata and ID")


def _annotations(container_id: ContainerId, document: dict[str, Any]) -> dict[str, Any]:
    match document:
        case {"Metadata": {"Config": {"annotations": dict(annotations)}}}:
            return annotations
        case {"Metadata": {"Config": dict()}}:
            return {}
        case _:
            raise _odd(container_id, "it has no container configuration")


def _value(container_id: ContainerId, data: bytes, annotations: dict[str, Any], key: str) -> HashValue | None:
    if key not in annotations:
        return None
    value = annotations[key]
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise _odd(container_id, f"its annotation {key} is {value!r}, which is no hash")
    count = data.count(_needle(key, value))
    if count != 1:
        raise _odd(container_id, f"its annotation {key} is found {count} times in the text instead of once")
    return HashValue(value)


def _prove_only_hashes_differ(container_id: ContainerId, before: bytes, after: bytes) -> None:
    old, new = _parsed(container_id, before), _parsed(container_id, after)
    for document in (old, new):
        annotations = _annotations(container_id, document)
        for key in (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY):
            annotations.pop(key, None)
    if old != new:
        raise _odd(container_id, "replacing the hash would change more than the hash")


def _needle(key: str, value: str) -> bytes:
    return f'"{key}":"{value}"'.encode("ascii")


def _odd(container_id: ContainerId, why: str) -> OddMetadata:
    return OddMetadata(
        f"cannot change the stored hash of container {container_id} because {why}; "
        "it was left as it is, report this with your containerd version"
    )
