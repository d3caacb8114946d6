"""A container's hashes, as the CRI serves them."""

from collections.abc import Mapping

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.inventory import StoredHashes


def served_hashes(
    annotations: Mapping[str, str], names: tuple[str, str] = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
) -> StoredHashes:
    """Return the hashes in the annotations, or labels, that a runtime serves; ``names`` as in changed()."""
    container, without_resources = (annotations.get(name) for name in names)
    return StoredHashes(
        container=HashValue(container) if container else None,
        without_resources=HashValue(without_resources) if without_resources else None,
    )


def served_annotation(key: str, value: str) -> bytes:
    """Return an annotation as encoded in a CRI response: in a protobuf map entry, the value follows its key."""
    return key.encode("ascii") + b"\x12" + bytes([len(value)]) + value.encode("ascii")
