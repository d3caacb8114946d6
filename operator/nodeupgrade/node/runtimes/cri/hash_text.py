"""Replaces the hashes in a text that a runtime stores with a container. Pure.

A runtime may lose a container whose document it cannot read, so no document is parsed and serialized again. Each hash
is found by its place in the parsed document, and every byte around the hashes is proven to be unchanged.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Self, TypeAlias

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH, HASH_KEYS, hash_changes
from nodeupgrade.node.runtimes.cri.json_places import Places, Tree, find
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage

Spans: TypeAlias = "Mapping[str, tuple[slice, ...]]"
"""Where each hash is written, by its name; the first place is the one that the runtime reads."""
LONGEST_SHOWN = 40


class UnexpectedMetadata(MetadataConflict):
    """Stored metadata has an unknown form and must not be changed."""


@dataclass(frozen=True, slots=True)
class HashText(ABC):
    """A text in which a runtime stores a container's hashes, as annotations or labels, among other things.

    Every method raises UnexpectedMetadata if the text is not what the runtime writes for this container.
    """

    RUNTIME: ClassVar[str]
    NAMES: ClassVar[tuple[str, str]] = HASH_KEYS
    """The names of the two hashes in the text."""
    KIND: ClassVar[str] = "annotation"
    WHAT: ClassVar[str]
    """Names the text in messages, for example ``configuration``."""

    container_id: ContainerId
    data: bytes

    @abstractmethod
    def spans(self) -> Spans:
        """Return where in the data the hashes are written, without their quotes."""

    def image(self, encoding: str) -> BeforeImage:
        """Return the before-image."""
        return BeforeImage(container_id=self.container_id, encoding=encoding, data=self.data, hashes=self.hashes())

    def hashes(self) -> StoredHashes:
        """Return the hashes, after proving that they can be replaced."""
        return self._hashes(self.spans())

    def rewritten(self, wanted: StoredHashes) -> bytes:
        """Return the text with other hashes and every other byte unchanged.

        A hash that is ``None`` in ``wanted`` stays; a missing annotation is never added.

        Raises:
            UnexpectedMetadata: a wanted value is not a hash, or more than the hashes would change.
        """
        spans = self.spans()
        try:
            changes = {name: new for name, _, new in hash_changes(self._hashes(spans), wanted, self.NAMES)}
        except ValueError as error:
            raise self.unexpected(str(error)) from error
        result = self._with(changes, spans)
        if around(result, replace(self, data=result).spans()) != around(self.data, spans):
            raise self.unexpected("replacing the hash would change more than the hash")
        return result

    def require_other_hashes_only(self, before: Self) -> None:
        """Require that this text and a former one of the same container are the same in every byte but the hashes.

        Raises:
            MetadataConflict: they are not.
        """
        try:
            if around(self.data, self.spans()) == around(before.data, before.spans()):
                return
        except UnexpectedMetadata as error:
            raise self.conflict() from error
        raise self.conflict()

    def places(self, text: str, wanted: Tree, what: str) -> Places:
        """Find values in JSON of the text."""
        try:
            return find(text, wanted)
        except ValueError as error:
            raise self.unexpected(f"{what} is not a JSON object ({error})") from error

    def hash_span(self, places: Places, *path: str) -> slice | None:
        """Return where a hash is written, without its quotes; ``None`` if there is none."""
        if not places.has(*path):
            return None
        whole = places.spans[path]
        span = slice(whole.start + 1, whole.stop - 1)
        if places.text[whole.start] == '"' and HASH.fullmatch(places.text[span]):
            return span
        if path[-1] != self.NAMES[0]:
            return None  # no kubelet wrote it
        written = places.text[whole][:LONGEST_SHOWN]
        raise self.unexpected(f"its {self.KIND} {path[-1]} is {written}, which is not a hash")

    def _hashes(self, spans: Spans) -> StoredHashes:
        container, without_resources = (self._hash(name, spans.get(name, ())) for name in self.NAMES)
        return StoredHashes(container=container, without_resources=without_resources)

    def _hash(self, name: str, spans: tuple[slice, ...]) -> HashValue | None:
        values = [self.data[span].decode("ascii") for span in spans]
        if len(set(values)) > 1:
            raise self.unexpected(f"its {self.KIND} {name} is {values[0]} in one place and {values[1]} in the other")
        return HashValue(values[0]) if values else None

    def _with(self, changes: Mapping[str, HashValue], spans: Spans) -> bytes:
        edits = sorted((span.start, span.stop, new) for name, new in changes.items() for span in spans[name])
        result, at = b"", 0
        for start, stop, new in edits:
            result += self.data[at:start] + new.encode("ascii")
            at = stop
        return result + self.data[at:]

    def unexpected(self, why: str) -> UnexpectedMetadata:
        """Return the error for a reason such as ``it has no annotations``."""
        return UnexpectedMetadata(
            f"cannot change the stored hash of container {self.container_id} because {why}; "
            f"it was left unchanged; report this with your version of {self.RUNTIME}"
        )

    def conflict(self) -> MetadataConflict:
        """Return the error about a text that another process has written since."""
        return MetadataConflict(
            f"cannot change the stored hash of container {self.container_id} because its {self.WHAT} is not what was "
            "read before; another process wrote it, and it was left unchanged"
        )

    def gone(self) -> ContainerGone:
        """Return the error about a container that the runtime does not have."""
        return ContainerGone(
            f"cannot change the stored hash of container {self.container_id} because {self.RUNTIME} no longer holds it"
        )


def around(data: bytes, spans: Spans) -> tuple[bytes, ...]:
    """Return every byte except the hashes, in pieces: before, between and after them."""
    every = sorted((span.start, span.stop) for each in spans.values() for span in each)
    return tuple(data[one[1] : other[0]] for one, other in pairwise([(0, 0), *every, (len(data), 0)]))
