"""Reads and rewrites the hashes containerd has stored: compare, set, read back.

containerd has no compare-and-set, so this is only safe while nobody else writes the same record. Nobody does
while no kubelet runs: the one other writer is the CRI's UpdateContainerResources.
"""

from collections.abc import Iterable, Mapping

from nodeupgrade.adapters.containerd import metadata
from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.containerd.client import ContainerdClient
from nodeupgrade.adapters.cri import NotFound
from nodeupgrade.domain.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.domain.inventory import StoredHashes
from nodeupgrade.domain.values import ContainerId
from nodeupgrade.ports.runtime import BeforeImage


class HashStore:
    """The stored hashes of one containerd."""

    def __init__(self, client: ContainerdClient) -> None:
        self._client = client

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Stored metadata by container; containers that are not there are left out.

        Raises:
            OddMetadata: one container's metadata could not be rewritten.
        """
        return {ContainerId(record.id): _image(record) for record in self._client.get_all(ids)}

    def rewrite(self, image: BeforeImage, hashes: StoredHashes) -> None:
        """Store other hashes in place of those of the image.

        Raises:
            MetadataConflict: neither the image nor the wanted document is stored.
            ContainerGone: there is no such container.
            OddMetadata: the image could not be rewritten.
        """
        wanted = metadata.rewritten(image.container_id, image.encoding, image.data, hashes)
        record = self._record(image.container_id)
        stored = record.extensions[metadata.EXTENSION]
        if (stored.type_url, stored.value) == (image.encoding, wanted):
            return
        if (stored.type_url, stored.value) != (image.encoding, image.data):
            raise _conflict(image)
        self._put(record, image.encoding, wanted)

    def restore(self, image: BeforeImage) -> None:
        """Store the bytes of the image again.

        Raises:
            MetadataConflict: what is stored differs from the image in more than its hashes.
            ContainerGone: there is no such container.
        """
        record = self._record(image.container_id)
        stored = record.extensions[metadata.EXTENSION]
        if (stored.type_url, stored.value) == (image.encoding, image.data):
            return
        try:
            back = metadata.rewritten(image.container_id, stored.type_url, stored.value, image.hashes)
        except metadata.OddMetadata as error:
            raise _conflict(image) from error
        if back != image.data:
            raise _conflict(image)
        self._put(record, image.encoding, image.data)

    def _record(self, container_id: ContainerId) -> pb.Container:
        try:
            return self._client.get(container_id)
        except NotFound as error:
            raise _gone(container_id) from error

    def _put(self, before: pb.Container, type_url: str, data: bytes) -> None:
        container_id = ContainerId(before.id)
        try:
            self._client.update_extension(container_id, metadata.EXTENSION, type_url, data)
        except NotFound as error:
            raise _gone(container_id) from error
        after = self._record(container_id)
        expected = pb.Container()
        expected.CopyFrom(before)
        expected.extensions[metadata.EXTENSION].value = data
        expected.updated_at.CopyFrom(after.updated_at)
        if after != expected:
            raise StepFailed(
                f"cannot trust the update of container {container_id} because its record reads back differently; "
                "the bytes to put back are in the journal"
            )


def _image(record: pb.Container) -> BeforeImage:
    stored = record.extensions[metadata.EXTENSION]
    container_id = ContainerId(record.id)
    hashes = metadata.read_hashes(container_id, stored.type_url, stored.value)
    return BeforeImage(container_id=container_id, encoding=stored.type_url, data=stored.value, hashes=hashes)


def _conflict(image: BeforeImage) -> MetadataConflict:
    return MetadataConflict(
        f"cannot change the stored hash of container {image.container_id} because its metadata is not what was "
        "read before; somebody else wrote it, and it was left as it is"
    )


def _gone(container_id: ContainerId) -> ContainerGone:
    return ContainerGone(
        f"cannot change the stored hash of container {container_id} because containerd no longer holds it"
    )
