"""What adapters share about the hashes that a runtime stores with a container. Pure.

A document in which a runtime finds its containers again is never parsed and serialized again: hashes are replaced in
its text, and everything else is proven to be unchanged.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from nodeupgrade.adapters.cri.client import HASH, HASH_KEY, HASH_WITHOUT_RESOURCES_KEY, changed
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.kubelethash import HashValue

KEYS = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)


class OddMetadata(StepFailed):
    """Stored metadata has an unknown form and must not be changed."""


Complain: TypeAlias = Callable[[str], OddMetadata]
"""Returns the error for a reason, such as ``it has no annotations``."""


def odd(container_id: ContainerId, why: str, *, runtime: str) -> OddMetadata:
    """Return the error about the metadata of a container."""
    return OddMetadata(
        f"cannot change the stored hash of container {container_id} because {why}; "
        f"it was left as it is, report this with your version of {runtime}"
    )


def conflict(container_id: ContainerId, what: str) -> MetadataConflict:
    """Return the error about metadata that somebody else wrote meanwhile.

    Args:
        what: the metadata, such as ``configuration``.
    """
    return MetadataConflict(
        f"cannot change the stored hash of container {container_id} because its {what} is not what was read before; "
        "somebody else wrote it, and it was left as it is"
    )


def gone(container_id: ContainerId, *, runtime: str) -> ContainerGone:
    """Return the error about a container that the runtime does not have."""
    return ContainerGone(
        f"cannot change the stored hash of container {container_id} because {runtime} no longer holds it"
    )


def hash_in(values: Mapping[str, object], name: str, complain: Complain, kind: str = "annotation") -> HashValue | None:
    """Return a hash among annotations or labels; ``None`` if it is not there.

    Raises:
        OddMetadata: the value is not a hash.
    """
    if name not in values:
        return None
    value = values[name]
    if not isinstance(value, str) or not HASH.fullmatch(value):
        raise complain(f"its {kind} {name} is {value!r}, which is no hash")
    return HashValue(value)


def with_hashes(
    data: bytes,
    stored: StoredHashes,
    wanted: StoredHashes,
    complain: Complain,
    *,
    put: Callable[[bytes, str, HashValue, HashValue], bytes],
    rest: Callable[[bytes], object],
    names: tuple[str, str] = KEYS,
) -> bytes:
    """Return a document with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

    Args:
        put: replaces the old value of a name by the new one in the text.
        rest: returns what a document says besides its hashes.
        names: those of the two hashes in the document.

    Raises:
        OddMetadata: a wanted value is not a hash, or more than the hashes would change.
    """
    result = data
    try:
        for name, old, new in changed(stored, wanted, names):
            result = put(result, name, old, new)
    except ValueError as error:
        raise complain(str(error)) from error
    if rest(data) != rest(result):
        raise complain("replacing the hash would change more than the hash")
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleHashes:
    """The hashes of a container in a JSON document in which each of them is once.

    Attributes:
        document: parses the text.
        values: returns the annotations or labels in the parsed document, which may be changed there.
        entry: returns a name with its value as they are in the text.
        complain: returns the error.
        names: those of the two hashes.
        kind: what the document keeps them as.
    """

    document: Callable[[bytes], dict[str, Any]]
    values: Callable[[dict[str, Any]], dict[str, Any]]
    entry: Callable[[str, str], bytes]
    complain: Complain
    names: tuple[str, str] = KEYS
    kind: str = "annotation"

    def read(self, data: bytes) -> StoredHashes:
        """Return the hashes, after proving that each is found in the text exactly once.

        Raises:
            OddMetadata: a value is not a hash, or its place is not known.
        """
        values = self.values(self.document(data))
        container, without_resources = (hash_in(values, name, self.complain, self.kind) for name in self.names)
        for name, value in zip(self.names, (container, without_resources), strict=True):
            if value is not None and (count := data.count(self.entry(name, value))) != 1:
                raise self.complain(f"its {self.kind} {name} is found {count} times in the text instead of once")
        return StoredHashes(container=container, without_resources=without_resources)

    def rewritten(self, data: bytes, wanted: StoredHashes) -> bytes:
        """Return the text with other hashes and every other byte unchanged; see with_hashes().

        Raises:
            OddMetadata: as for read(), or a wanted value is not a hash.
        """
        return with_hashes(
            data, self.read(data), wanted, self.complain, put=self._put, rest=self._rest, names=self.names
        )

    def _put(self, text: bytes, name: str, old: HashValue, new: HashValue) -> bytes:
        return text.replace(self.entry(name, old), self.entry(name, new))

    def _rest(self, data: bytes) -> object:
        document = self.document(data)
        values = self.values(document)
        for name in self.names:
            values.pop(name, None)
        return document


def require_other_hashes_only(restored: Callable[[], bytes], before: bytes, otherwise: MetadataConflict) -> None:
    """Require that what is stored differs from a before-image in nothing but hashes.

    Args:
        restored: returns what is stored with the hashes of the before-image.

    Raises:
        MetadataConflict: it differs in more.
    """
    try:
        if restored() == before:
            return
    except OddMetadata as error:
        raise otherwise from error
    raise otherwise
