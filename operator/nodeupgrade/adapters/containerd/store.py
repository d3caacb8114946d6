"""Reads and rewrites the hashes that containerd stores: compare, set, and check what containerd reports as written.

containerd has no compare-and-set, so this is safe only while nothing else writes the same record. That holds
while no kubelet runs: the only other writer is the CRI's UpdateContainerResources.
"""

from collections.abc import Collection, Iterable, Mapping

from google.protobuf.any_pb2 import Any

from nodeupgrade.adapters.containerd import metadata
from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.containerd.client import ContainerdClient
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.ports.node.runtime import BeforeImage


class HashStore:
    """The hashes stored in one containerd."""

    def __init__(self, client: ContainerdClient) -> None:
        self._client = client

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return the stored metadata by container; missing containers are left out.

        Raises:
            OddMetadata: the metadata of a container cannot be rewritten.
        """
        return {ContainerId(record.id): _image(record) for record in self._client.get_all(ids)}

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the hashes of the before-images. Nothing is written unless every change can be made.

        A container that already has the wanted document is left alone.

        Raises:
            MetadataConflict: the stored document is neither the before-image nor the wanted one.
            ContainerGone: there is no such container.
            OddMetadata: a before-image cannot be rewritten.
        """
        wanted = {
            image.container_id: (image, metadata.rewritten(image.container_id, image.encoding, image.data, hashes))
            for image, hashes in changes
        }
        records = self._records(wanted)
        writes: dict[ContainerId, Any] = {}
        for container_id, (image, data) in wanted.items():
            stored = records[container_id].extensions[metadata.EXTENSION]
            if (stored.type_url, stored.value) == (image.encoding, data):
                continue
            if (stored.type_url, stored.value) != (image.encoding, image.data):
                raise _conflict(image)
            writes[container_id] = Any(type_url=image.encoding, value=data)
        self._put(records, writes)

    def restore(self, image: BeforeImage) -> None:
        """Store the bytes of the before-image again.

        Raises:
            MetadataConflict: the stored document differs from the before-image in more than its hashes.
            ContainerGone: there is no such container.
        """
        records = self._records([image.container_id])
        stored = records[image.container_id].extensions[metadata.EXTENSION]
        if (stored.type_url, stored.value) == (image.encoding, image.data):
            return
        try:
            restored = metadata.rewritten(image.container_id, stored.type_url, stored.value, image.hashes)
        except metadata.OddMetadata as error:
            raise _conflict(image) from error
        if restored != image.data:
            raise _conflict(image)
        self._put(records, {image.container_id: Any(type_url=image.encoding, value=image.data)})

    def _records(self, ids: Collection[ContainerId]) -> dict[ContainerId, pb.Container]:
        return _all_of(ids, self._client.get_all(ids))

    def _put(self, before: Mapping[ContainerId, pb.Container], writes: Mapping[ContainerId, Any]) -> None:
        after = _all_of(writes, self._client.update_extensions(metadata.EXTENSION, writes.items()))
        for container_id, value in writes.items():
            expected = pb.Container()
            expected.CopyFrom(before[container_id])
            expected.extensions[metadata.EXTENSION].CopyFrom(value)
            expected.updated_at.CopyFrom(after[container_id].updated_at)
            if after[container_id] != expected:
                raise StepFailed(
                    f"cannot trust the update of container {container_id} because containerd wrote something else "
                    "than it was asked to; the bytes to put back are in the journal"
                )


def _all_of(ids: Collection[ContainerId], records: Iterable[pb.Container]) -> dict[ContainerId, pb.Container]:
    found = {ContainerId(record.id): record for record in records}
    for container_id in ids:
        if container_id not in found:
            raise _gone(container_id)
    return found


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
