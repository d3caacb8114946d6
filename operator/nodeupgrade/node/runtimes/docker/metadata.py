"""Replaces the hashes in a container's stored configuration and leaves every other byte unchanged.

dockerd keeps a container's state in ``config.v2.json``, a JSON object in one line. ``Config`` is the configuration that
it was created with, with the kubelet's annotations among the labels; the rest is dockerd's own, and changes with every
event. So only the bytes of that value are stored, compared and restored.
"""

from dataclasses import dataclass, field
from typing import Self

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.cri.hash_text import HashText, Spans
from nodeupgrade.node.runtimes.cri.json_places import LEAF, Tree

ENCODING = "config.v2.json/Config"
ANNOTATION = "annotation."
"""Prefix of the labels in which dockershim and cri-dockerd keep annotations."""
HASH_LABEL = f"{ANNOTATION}{HASH_KEY}"
HASH_WITHOUT_RESOURCES_LABEL = f"{ANNOTATION}{HASH_WITHOUT_RESOURCES_KEY}"
HASH_LABELS = (HASH_LABEL, HASH_WITHOUT_RESOURCES_LABEL)
CONFIG, ID, LABELS = "Config", "ID", "Labels"
WANTED: Tree = {LABELS: dict.fromkeys(HASH_LABELS, LEAF)}


@dataclass(frozen=True, slots=True)
class StoredConfig(HashText):
    """The configuration of one container, in its ``config.v2.json``."""

    RUNTIME = "Docker"
    NAMES = HASH_LABELS
    KIND = "label"
    WHAT = "configuration"

    # the rest of the file, before and after it
    head: bytes = field(default=b"", compare=False)
    tail: bytes = field(default=b"", compare=False)

    @classmethod
    def of(cls, container_id: ContainerId, content: bytes) -> Self:
        """Find the configuration in the bytes of a file.

        Raises:
            UnexpectedMetadata: the file is not what dockerd writes for this container.
        """
        unread = cls(container_id, content)
        places = unread.places(content.decode("latin-1"), {CONFIG: LEAF, ID: LEAF}, "its file")
        if (owner := places.value(ID)) != container_id:
            raise unread.unexpected(f"its file belongs to {owner or 'no container'}")
        if not places.has(CONFIG):
            raise unread.unexpected("its file has no configuration")
        found = places.spans[CONFIG,]
        return cls(container_id, content[found], content[: found.start], content[found.stop :])

    @property
    def content(self) -> bytes:
        """The bytes of the whole file."""
        return self.head + self.data + self.tail

    def spans(self) -> Spans:
        places = self.places(self.data.decode("latin-1"), WANTED, "its configuration")
        if places.value(LABELS) is not None and not places.is_object(LABELS):
            raise self.unexpected("its labels are not an object")
        found = {label: self.hash_span(places, LABELS, label) for label in self.NAMES}
        return {label: (span,) for label, span in found.items() if span is not None}
