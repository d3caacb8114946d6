"""Replaces the hashes in a container's stored metadata and leaves every other byte unchanged.

containerd's CRI plugin keeps a container's configuration as JSON in a ``google.protobuf.Any`` under the extension
key ``io.cri-containerd.container.metadata`` of the container's record; type URL, version and shape are the same
from containerd 1.4 to 2.3. containerd does not validate such a document when it is stored, but a container whose
document it cannot read vanishes from the CRI at its next start.
"""

from dataclasses import dataclass, field
from typing import Self

from google.protobuf.any_pb2 import Any as Packed

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEYS
from nodeupgrade.node.runtimes.cri.hash_text import HashText, Spans
from nodeupgrade.node.runtimes.cri.json_places import LEAF, Places, Tree

EXTENSION = "io.cri-containerd.container.metadata"
TYPE_URL = "github.com/containerd/cri/pkg/store/container/Metadata"
VERSION = "v1"
ANNOTATIONS = ("Metadata", "Config", "annotations")
WANTED: Tree = {
    "Version": LEAF,
    "Metadata": {"ID": LEAF, "Config": {"annotations": dict.fromkeys(HASH_KEYS, LEAF)}},
}


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

    def spans(self) -> Spans:
        places = self._known_form()
        found = {name: self.hash_span(places, *ANNOTATIONS, name) for name in self.NAMES}
        return {name: (span,) for name, span in found.items() if span is not None}

    def _known_form(self) -> Places:
        if self.type_url != TYPE_URL:
            raise self.unexpected(f"its type is {self.type_url!r}, not {TYPE_URL!r}")
        places = self.places(self.data.decode("latin-1"), WANTED, "it")
        version, stored_id = places.value("Version"), places.value("Metadata", "ID")
        if version is None or stored_id is None:
            raise self.unexpected("it has no Version, Metadata and ID")
        if version != VERSION:
            raise self.unexpected(f"its version is {version!r}, not {VERSION!r}")
        if stored_id != self.container_id:
            raise self.unexpected(f"it belongs to container {stored_id}")
        if not places.is_object("Metadata", "Config"):
            raise self.unexpected("it has no container configuration")
        return places
