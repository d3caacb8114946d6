"""Reads and rewrites the hashes that containerd stores: compare, set, and check what containerd reports as written.

containerd has no compare-and-set, so this is safe only while nothing else writes the same record. That holds
while no kubelet runs: the only other writer is the CRI's UpdateContainerResources.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.field_mask_pb2 import FieldMask

from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.cri.client import Listing, Statuses, inventory_of, uses_host_network
from nodeupgrade.adapters.cri.connection import Connection, UnaryMethod
from nodeupgrade.adapters.cri.stored import HashStore, HashText
from nodeupgrade.adapters.proc.processes import INIT, ProcessTable, Stat
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import Inventory, Process
from nodeupgrade.ports.runtime import BeforeImage

NAMESPACE = (("containerd-namespace", "k8s.io"),)
"""Metadata of every call: Kubernetes' containers live in containerd's ``k8s.io`` namespace."""
GET = UnaryMethod("/containerd.services.containers.v1.Containers/Get", pb.GetContainerResponse)
UPDATE = UnaryMethod("/containerd.services.containers.v1.Containers/Update", pb.UpdateContainerResponse)


class MetadataStore(HashStore["StoredMetadata"]):
    """The container records of one containerd, through its own API and not its CRI plugin.

    Args:
        connection: connection to containerd's socket, with NAMESPACE as its metadata.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        found = map(StoredMetadata.of, self.records(ids))
        return {
            each.container_id: BeforeImage(
                container_id=each.container_id, encoding=each.type_url, data=each.data, hashes=each.hashes()
            )
            for each in found
        }

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
                    f"cannot trust the update of container {after.id} because containerd wrote something else than it "
                    "was asked to; the bytes to put back are in the journal"
                )

    def records(self, ids: Iterable[str]) -> list[pb.Container]:
        """Return the stored container records; missing containers are left out."""
        answers = self._connection.ask_all(GET, (pb.GetContainerRequest(id=i) for i in ids))
        return [answer.container for answer in answers if answer is not None]

    def update(self, values: Iterable[tuple[str, Packed]]) -> list[pb.Container]:
        """Replace the metadata of several records, and nothing else. The change is on disk when this returns.

        All requests are sent at once, to save round trips; containerd processes them one after the other.

        Returns:
            The whole records as containerd wrote them; missing containers are left out.
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


# Builds the Inventory of a node from the answers of the CRI and containerd, and from ``/proc``.

SHIM_OF_PODS = "containerd-shim-runc-v2"
"""The shim that serves a whole pod. Older shims serve one container each; containers in virtual machines are not
children of their shim."""
# The kernel keeps only the first 15 bytes of a program's name, which all shims share.
SHIM = "containerd-shim"


def to_inventory(listing: Listing, statuses: Statuses, processes: ProcessTable) -> Inventory:
    """Build the inventory."""
    node_network = processes.network(INIT)

    def host_network(stat: Stat | None, sandbox: str) -> bool:
        if (status := statuses.sandboxes.get(sandbox)) is not None:
            return uses_host_network(status)
        return stat is not None and processes.network(stat.pid) == node_network

    def shim(stat: Stat, container: str) -> Process | None:
        return _shim_of_pods(stat, processes) if container in statuses.containers else None

    def shim_of_sandbox(stat: Stat, _sandbox: str) -> Process | None:
        """Return its parent, unless the shim that started it died: another parent has adopted it."""
        parent = processes.stat(stat.parent)
        return parent.process if parent and parent.command == SHIM else None

    return inventory_of(
        listing, statuses, processes, monitor=shim, pod_monitor=shim_of_sandbox, host_network=host_network
    )


def _shim_of_pods(stat: Stat, processes: ProcessTable) -> Process | None:
    """Return the parent shim of a process, if it is of the kind that serves a whole pod."""
    parent = processes.stat(stat.parent)
    arguments = processes.arguments(stat.parent) if parent is not None and parent.command == SHIM else None
    return parent.process if parent and arguments and PurePosixPath(arguments[0]).name == SHIM_OF_PODS else None


# Replaces the hashes in a container's stored metadata and leaves every other byte unchanged.
#
# containerd's CRI plugin keeps a container's configuration as JSON in a ``google.protobuf.Any`` under the extension
# key ``io.cri-containerd.container.metadata`` of the container's record; type URL, version and shape are the same
# from containerd 1.4 to 2.3. containerd does not validate such a document when it is stored, but a container whose
# document it cannot read vanishes from the CRI at its next start. So the document is never parsed and serialized
# again: two strings are replaced in the bytes, and everything else is proven to be unchanged.

EXTENSION = "io.cri-containerd.container.metadata"
TYPE_URL = "github.com/containerd/cri/pkg/store/container/Metadata"
VERSION = "v1"


@dataclass(frozen=True, slots=True)
class StoredMetadata(HashText):
    """The metadata of one container."""

    RUNTIME = "containerd"
    WHAT = "metadata"

    type_url: str = TYPE_URL
    record: pb.Container = field(default_factory=pb.Container, compare=False)  # the whole record, if it was read

    @classmethod
    def of(cls, record: pb.Container) -> Self:
        """Return the metadata in a record."""
        stored = record.extensions[EXTENSION]
        return cls(ContainerId(record.id), stored.value, stored.type_url, record)

    @property
    def packed(self) -> Packed:
        """The value of the extension."""
        return Packed(type_url=self.type_url, value=self.data)

    def parsed(self) -> tuple[Mapping[str, Any], object]:
        document = self._document()
        annotations = self._annotations(document)
        return {name: annotations.pop(name) for name in self.NAMES if name in annotations}, document

    def _document(self) -> dict[str, Any]:
        if self.type_url != TYPE_URL:
            raise self.odd(f"its type is {self.type_url!r}, not {TYPE_URL!r}")
        match self.json(self.data, "it"):
            case {"Version": version, "Metadata": {"ID": stored_id}} as document:
                if version != VERSION:
                    raise self.odd(f"its version is {version!r}, not {VERSION!r}")
                if stored_id != self.container_id:
                    raise self.odd(f"it belongs to container {stored_id}")
                return dict(document)
            case _:
                raise self.odd("it has no Version, Metadata and ID")

    def _annotations(self, document: dict[str, Any]) -> dict[str, Any]:
        match document:
            case {"Metadata": {"Config": {"annotations": dict(annotations)}}}:
                return annotations
            case {"Metadata": {"Config": dict()}}:
                return {}
            case _:
                raise self.odd("it has no container configuration")
