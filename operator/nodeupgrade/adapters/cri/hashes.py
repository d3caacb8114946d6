"""A container's hashes, as the CRI serves them."""

from collections.abc import Mapping

from nodeupgrade.adapters.cri.annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.kubelethash import HashValue


def served_hashes(annotations: Mapping[str, str]) -> StoredHashes:
    """Return the hashes in the annotations that a runtime serves."""
    container, without_resources = (annotations.get(key) for key in (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY))
    return StoredHashes(
        container=HashValue(container) if container else None,
        without_resources=HashValue(without_resources) if without_resources else None,
    )


def served_annotation(key: str, value: str) -> bytes:
    """Return an annotation as encoded in a CRI response: in a protobuf map entry, the value follows its key."""
    return key.encode("ascii") + b"\x12" + bytes([len(value)]) + value.encode("ascii")
