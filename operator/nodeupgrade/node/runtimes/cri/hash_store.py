"""How adapters replace the hashes that a runtime stores: compare, replace the whole text, read back."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.cri.hash_text import HashText
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage

T = TypeVar("T", bound=HashText)


class HashStore(ABC, Generic[T]):
    """The texts of all containers of one runtime. Every method raises UnexpectedMetadata if one cannot be rewritten."""

    @abstractmethod
    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return the before-images by container; missing containers are left out."""

    @abstractmethod
    def text(self, image: BeforeImage) -> T:
        """Return the text in a before-image."""

    @abstractmethod
    def present(self, texts: Iterable[T]) -> Iterable[T]:
        """Return the texts of the same containers as they are stored now.

        Raises:
            ContainerGone: there is no such container.
        """

    @abstractmethod
    def put(self, texts: Iterable[T]) -> None:
        """Store texts durably, each made from the present one of its container.

        Raises:
            StepFailed: something else is stored afterwards.
        """

    def write(self, pending: Callable[[], list[T]]) -> None:
        """Store the pending texts."""
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
            now.require_other_hashes_only(before)
            return [replace(now, data=before.data)]

        self.write(pending)
