"""Reads and rewrites the hashes that containerd stores: compare, set, and check the record that containerd returns.

containerd has no compare-and-set, so this is safe only while nothing else writes the same record. That holds
while no kubelet runs: the only other writer is the CRI's UpdateContainerResources.
"""

from collections.abc import Iterable, Mapping

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.field_mask_pb2 import FieldMask

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.containerd.metadata import EXTENSION, StoredMetadata
from nodeupgrade.node.runtimes.cri.connection import Connection, UnaryMethod
from nodeupgrade.node.runtimes.cri.hash_store import HashStore
from nodeupgrade.node.runtimes.runtime import BeforeImage

NAMESPACE = (("containerd-namespace", "k8s.io"),)
"""Metadata of every call: Kubernetes' containers are in containerd's ``k8s.io`` namespace."""
GET = UnaryMethod("/containerd.services.containers.v1.Containers/Get", pb.GetContainerResponse)
UPDATE = UnaryMethod("/containerd.services.containers.v1.Containers/Update", pb.UpdateContainerResponse)


class MetadataStore(HashStore["StoredMetadata"]):
    """The container records of one containerd, through its own API; each call of ``connection`` carries NAMESPACE."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        found = map(StoredMetadata.of, self.records(ids))
        return {each.container_id: each.image(each.type_url) for each in found}

    def text(self, image: BeforeImage) -> "StoredMetadata":
        return StoredMetadata(image.container_id, image.data, image.encoding)

    def present(self, texts: Iterable["StoredMetadata"]) -> Iterable["StoredMetadata"]:
        wanted = {text.container_id: text for text in texts}
        return map(StoredMetadata.of, _all_of(wanted, self.records(wanted)))

    def put(self, texts: Iterable["StoredMetadata"]) -> None:
        writes = {text.container_id: text for text in texts}
        updated = self.update((text.container_id, text.packed) for text in writes.values())
        for after in _all_of(writes, updated):
            text = writes[ContainerId(after.id)]
            expected = pb.Container()
            expected.CopyFrom(text.record)
            expected.extensions[EXTENSION].CopyFrom(text.packed)
            expected.updated_at.CopyFrom(after.updated_at)
            if after != expected:
                raise StepFailed(
                    f"cannot trust the update of container {after.id} because containerd wrote something other than "
                    "requested; the bytes to put back are in the journal"
                )

    def records(self, ids: Iterable[str]) -> list[pb.Container]:
        """Return the stored container records; missing containers are left out."""
        answers = self._connection.ask_all(GET, (pb.GetContainerRequest(id=i) for i in ids))
        return [answer.container for answer in answers if answer is not None]

    def update(self, values: Iterable[tuple[str, Packed]]) -> list[pb.Container]:
        """Replace the metadata of several records durably, and return the whole records as containerd wrote them.

        Missing containers are left out. All requests are sent at once; containerd processes them one after the other.
        """
        answers = self._connection.call_all(UPDATE, [update_of(*value) for value in values])
        return [answer.container for answer in answers if answer is not None]


def update_of(container_id: str, value: Packed) -> pb.UpdateContainerRequest:
    """Return the request that replaces the metadata of one record.

    The mask must name exactly that extension: with no mask, or with bare ``extensions``, containerd replaces the whole
    record or map by what the request holds. The Any is built by hand, since Pack() puts ``type.googleapis.com/`` before
    the type URL, which containerd stores and then cannot read.
    """
    record = pb.Container(id=container_id, extensions={EXTENSION: value})
    return pb.UpdateContainerRequest(container=record, update_mask=FieldMask(paths=[f"extensions.{EXTENSION}"]))


def _all_of(texts: Mapping[ContainerId, "StoredMetadata"], records: list[pb.Container]) -> list[pb.Container]:
    found = {record.id for record in records}
    for container_id, text in texts.items():
        if container_id not in found:
            raise text.gone()
    return records
