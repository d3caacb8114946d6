"""Replaces the hashes in a text that a runtime stores with a container. Pure.

A runtime may lose a container whose document it cannot read, so no document is parsed and serialized again: hashes are
replaced in its text, and everything else is proven to be unchanged.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH, HASH_KEYS, hash_changes
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from nodeupgrade.text import parse_json


class UnexpectedMetadata(StepFailed):
    """Stored metadata has an unknown form and must not be changed."""


def json_entry(name: str, value: str) -> bytes:
    """Return an annotation or label as in JSON without blanks."""
    return f'"{name}":"{value}"'.encode("ascii")


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
    def parsed(self) -> tuple[Mapping[str, Any], object]:
        """Return the annotations or labels with the hashes, and everything in the text except hashes.

        Both come from one parse: hundreds of texts are parsed while no kubelet runs.
        """

    def image(self, encoding: str) -> BeforeImage:
        """Return the before-image."""
        return BeforeImage(container_id=self.container_id, encoding=encoding, data=self.data, hashes=self.hashes())

    def put(self, text: bytes, name: str, old: HashValue, new: HashValue) -> bytes:
        """Replace the old value of a name by the new one."""
        return text.replace(json_entry(name, old), json_entry(name, new))

    def value(self, name: str, values: Mapping[str, Any]) -> HashValue | None:
        """Return a hash, after proving that it occurs in the text exactly once; ``None`` if it is missing."""
        value = self.hash_in(values, name)
        if value is not None and (count := self.data.count(json_entry(name, value))) != 1:
            raise self.unexpected(f"its {self.KIND} {name} is found {count} times in the text instead of once")
        return value

    def hash_in(self, values: Mapping[str, object], name: str) -> HashValue | None:
        """Return a hash among annotations or labels; ``None`` if it is missing."""
        if name not in values:
            return None
        value = values[name]
        if not isinstance(value, str) or not HASH.fullmatch(value):
            raise self.unexpected(f"its {self.KIND} {name} is {value!r}, which is not a hash")
        return HashValue(value)

    def hashes(self) -> StoredHashes:
        """Return the hashes, after proving that they can be replaced."""
        return self._hashes(self.parsed()[0])

    def rewritten(self, wanted: StoredHashes) -> bytes:
        """Return the text with other hashes and every other byte unchanged.

        A hash that is ``None`` in ``wanted`` stays; a missing annotation is never added.

        Raises:
            UnexpectedMetadata: a wanted value is not a hash, or more than the hashes would change.
        """
        result, (values, rest) = self.data, self.parsed()
        try:
            for name, old, new in hash_changes(self._hashes(values), wanted, self.NAMES):
                result = self.put(result, name, old, new)
        except ValueError as error:
            raise self.unexpected(str(error)) from error
        if rest != replace(self, data=result).parsed()[1]:
            raise self.unexpected("replacing the hash would change more than the hash")
        return result

    def _hashes(self, values: Mapping[str, Any]) -> StoredHashes:
        container, without_resources = (self.value(name, values) for name in self.NAMES)
        return StoredHashes(container=container, without_resources=without_resources)

    def require_other_hashes_only(self, image: StoredHashes, before: bytes) -> None:
        """Require that this text differs from a before-image, given as hashes and bytes, only in its hashes.

        Raises:
            MetadataConflict: it differs in more.
        """
        try:
            if self.rewritten(image) == before:
                return
        except UnexpectedMetadata as error:
            raise self.conflict() from error
        raise self.conflict()

    def json(self, data: bytes, what: str) -> Any:
        """Parse JSON of the text."""
        try:
            return parse_json(data)
        except ValueError as error:
            raise self.unexpected(f"{what} is not JSON ({error})") from error

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
