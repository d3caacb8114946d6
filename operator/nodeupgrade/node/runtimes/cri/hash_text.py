"""What adapters share about the hashes that a runtime stores with a container. Pure.

A document in which a runtime finds its containers again is never parsed and serialized again: hashes are replaced in
its text, and everything else is proven to be unchanged.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH, HASH_KEY, HASH_WITHOUT_RESOURCES_KEY, changed
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage

KEYS = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)


class OddMetadata(StepFailed):
    """Stored metadata has an unknown form and must not be changed."""


def entry(name: str, value: str) -> bytes:
    """Return an annotation or label with its value as they are in JSON without blanks."""
    return f'"{name}":"{value}"'.encode("ascii")


@dataclass(frozen=True, slots=True)
class HashText(ABC):
    """A text in which a runtime stores a container's hashes, as annotations or labels, among other things.

    Every method raises OddMetadata if the text is not what the runtime writes for this container.
    """

    RUNTIME: ClassVar[str]
    NAMES: ClassVar[tuple[str, str]] = KEYS
    """The names of the two hashes in the text."""
    KIND: ClassVar[str] = "annotation"
    WHAT: ClassVar[str]
    """What the text is, such as ``configuration``."""

    container_id: ContainerId
    data: bytes

    @abstractmethod
    def parsed(self) -> tuple[Mapping[str, Any], object]:
        """Return the annotations or labels among which hashes are, and what the text says besides hashes.

        It is parsed once: hundreds of texts are, while no kubelet runs.
        """

    def put(self, text: bytes, name: str, old: HashValue, new: HashValue) -> bytes:
        """Replace the old value of a name by the new one."""
        return text.replace(entry(name, old), entry(name, new))

    def value(self, name: str, values: Mapping[str, Any]) -> HashValue | None:
        """Return a hash, after proving that it is found in the text exactly once; ``None`` if it is not there."""
        value = self.hash_in(values, name)
        if value is not None and (count := self.data.count(entry(name, value))) != 1:
            raise self.odd(f"its {self.KIND} {name} is found {count} times in the text instead of once")
        return value

    def hash_in(self, values: Mapping[str, object], name: str) -> HashValue | None:
        """Return a hash among annotations or labels; ``None`` if it is not there."""
        if name not in values:
            return None
        value = values[name]
        if not isinstance(value, str) or not HASH.fullmatch(value):
            raise self.odd(f"its {self.KIND} {name} is {value!r}, which is no hash")
        return HashValue(value)

    def hashes(self) -> StoredHashes:
        """Return the hashes, after proving that they can be replaced."""
        return self._hashes(self.parsed()[0])

    def rewritten(self, wanted: StoredHashes) -> bytes:
        """Return the text with other hashes and every other byte unchanged.

        A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

        Raises:
            OddMetadata: a wanted value is not a hash, or more than the hashes would change.
        """
        result, (values, rest) = self.data, self.parsed()
        try:
            for name, old, new in changed(self._hashes(values), wanted, self.NAMES):
                result = self.put(result, name, old, new)
        except ValueError as error:
            raise self.odd(str(error)) from error
        if rest != replace(self, data=result).parsed()[1]:
            raise self.odd("replacing the hash would change more than the hash")
        return result

    def _hashes(self, values: Mapping[str, Any]) -> StoredHashes:
        container, without_resources = (self.value(name, values) for name in self.NAMES)
        return StoredHashes(container=container, without_resources=without_resources)

    def require_other_hashes_only(self, image: StoredHashes, before: bytes) -> None:
        """Require that this text differs from a before-image, given by its hashes and bytes, in nothing but hashes.

        Raises:
            MetadataConflict: it differs in more.
        """
        try:
            if self.rewritten(image) == before:
                return
        except OddMetadata as error:
            raise self.conflict() from error
        raise self.conflict()

    def json(self, data: bytes, what: str) -> Any:
        """Parse JSON of the text."""
        try:
            return json.loads(data)
        except ValueError as error:
            raise self.odd(f"{what} is not JSON ({error})") from error

    def odd(self, why: str) -> OddMetadata:
        """Return the error for a reason, such as ``it has no annotations``."""
        return OddMetadata(
            f"cannot change the stored hash of container {self.container_id} because {why}; "
            f"it was left as it is, report this with your version of {self.RUNTIME}"
        )

    def conflict(self) -> MetadataConflict:
        """Return the error about a text that somebody else wrote meanwhile."""
        return MetadataConflict(
            f"cannot change the stored hash of container {self.container_id} because its {self.WHAT} is not what was "
            "read before; somebody else wrote it, and it was left as it is"
        )

    def gone(self) -> ContainerGone:
        """Return the error about a container that the runtime does not have."""
        return ContainerGone(
            f"cannot change the stored hash of container {self.container_id} because {self.RUNTIME} no longer holds it"
        )


T = TypeVar("T", bound=HashText)


class HashStore(ABC, Generic[T]):
    """The texts of all containers of one runtime: each is compared, replaced as a whole, and read back.

    Every method raises OddMetadata for what cannot be rewritten.
    """

    @abstractmethod
    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return what is stored by container; missing containers are left out."""

    @abstractmethod
    def text(self, image: BeforeImage) -> T:
        """Return the text in a before-image."""

    @abstractmethod
    def present(self, texts: Iterable[T]) -> Iterable[T]:
        """Return what is stored now of the containers of these texts.

        Raises:
            ContainerGone: there is no such container.
        """

    @abstractmethod
    def put(self, texts: Iterable[T]) -> None:
        """Store texts durably, each made from the present one of its container.

        Raises:
            StepFailed: what is stored afterwards is something else.
        """

    def write(self, pending: Callable[[], list[T]]) -> None:
        """Store what is pending."""
        self.put(pending())

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the hashes of the before-images. Nothing is written unless every change can be made.

        Raises:
            MetadataConflict: a stored text is neither the before-image's nor the wanted one.
            ContainerGone: there is no such container.
        """
        texts = ((self.text(image), hashes) for image, hashes in changes)
        wanted = {before.container_id: (before, before.rewritten(hashes)) for before, hashes in texts}

        def pending() -> list[T]:
            writes = []
            for now in self.present(before for before, _ in wanted.values()):
                before, data = wanted[now.container_id]
                if now == replace(before, data=data):
                    continue
                if now != before:
                    raise before.conflict()
                writes.append(replace(now, data=data))
            return writes

        self.write(pending)

    def restore(self, image: BeforeImage) -> None:
        """Store the text of the before-image again.

        Raises:
            MetadataConflict: the stored text differs from the before-image's in more than its hashes.
            ContainerGone: there is no such container.
        """
        before = self.text(image)

        def pending() -> list[T]:
            [now] = self.present([before])
            if now == before:
                return []
            now.require_other_hashes_only(image.hashes, before.data)
            return [replace(now, data=before.data)]

        self.write(pending)
