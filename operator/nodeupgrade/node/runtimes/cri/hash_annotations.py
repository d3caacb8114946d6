"""The annotations in which kubelets store a container's hashes."""

import re
from collections.abc import Iterator, Mapping

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.inventory import StoredHashes

HASH_KEY = "io.kubernetes.container.hash"
HASH_WITHOUT_RESOURCES_KEY = "io.kubernetes.container.hashWithoutResources"
HASH_KEYS = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
# strconv.FormatUint(hash, 16); no kubelet writes a value of any other form.
HASH = re.compile(r"[0-9a-f]{1,16}")


def hash_changes(
    stored: StoredHashes, wanted: StoredHashes, names: tuple[str, str] = HASH_KEYS
) -> Iterator[tuple[str, HashValue, HashValue]]:
    """Yield name, old and new value of each hash that both sides have and that differs.

    ``names`` are those under which the runtime keeps the two hashes.

    Raises:
        ValueError: a wanted value is not a hash.
    """
    pairs = ((stored.container, wanted.container), (stored.without_resources, wanted.without_resources))
    for name, (old, new) in zip(names, pairs, strict=True):
        if old is None or new is None or old == new:
            continue
        if not HASH.fullmatch(new):
            raise ValueError(f"the value {new!r} wanted for {name} is not a hash")
        yield name, old, new


def served_hashes(annotations: Mapping[str, str], names: tuple[str, str] = HASH_KEYS) -> StoredHashes:
    """Return the hashes in the annotations, or labels, that a runtime serves."""
    container, without_resources = (annotations.get(name, "") for name in names)
    return StoredHashes(
        container=HashValue(container) if container else None,
        # Docker shows an image's labels as well; kubelets that run with it write none of this name.
        without_resources=HashValue(without_resources) if HASH.fullmatch(without_resources) else None,
    )
