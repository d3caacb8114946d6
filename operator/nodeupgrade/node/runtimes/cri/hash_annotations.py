"""The annotations in which kubelets store a container's hashes, wherever a runtime keeps them."""

import re
from collections.abc import Iterator

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.inventory import StoredHashes

HASH_KEY = "io.kubernetes.container.hash"
HASH_WITHOUT_RESOURCES_KEY = "io.kubernetes.container.hashWithoutResources"
# strconv.FormatUint(hash, 16); no kubelet writes a value of any other form.
HASH = re.compile(r"[0-9a-f]{1,16}")


def changed(
    stored: StoredHashes, wanted: StoredHashes, names: tuple[str, str] = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
) -> Iterator[tuple[str, HashValue, HashValue]]:
    """Return name, old and new value of each hash that changes: those that both sides have, and that differ.

    Args:
        stored: the present hashes.
        wanted: the hashes to be.
        names: those of the two hashes, where the runtime keeps them under other names.

    Raises:
        ValueError: a wanted value is not a hash.
    """
    pairs = ((stored.container, wanted.container), (stored.without_resources, wanted.without_resources))
    for name, (old, new) in zip(names, pairs, strict=True):
        if old is None or new is None or old == new:
            continue
        if not HASH.fullmatch(new):
            raise ValueError(f"the value {new!r} wanted for {name} is no hash")
        yield name, old, new
