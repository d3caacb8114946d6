"""Replaces the hashes in a container's ``config.json`` and leaves every other byte unchanged. Pure.

CRI-O keeps the kubelet's annotations twice in the OCI specification that it stores with each container: as annotations
of their own, among those of the pod, and as JSON in the annotation ``io.kubernetes.cri-o.Annotations``, which it reads
when it starts. A starting CRI-O *deletes* a container whose file it cannot read, and it cannot be brought back.
"""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.api.values import SandboxId
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEYS
from nodeupgrade.node.runtimes.cri.hash_text import HashText, Spans
from nodeupgrade.node.runtimes.cri.json_places import LEAF, Places, Tree, place_in_literal

PREFIX = "io.kubernetes.cri-o."
INNER, SANDBOX = f"{PREFIX}Annotations", f"{PREFIX}SandboxID"
MANAGER = "io.container.manager"
NEEDED = ("Labels", "Metadata", "Annotations", "Created", "SandboxID", "Name")
"""Without one of these, each below ``io.kubernetes.cri-o.``, a starting CRI-O deletes the container."""
ANNOTATIONS = "annotations"
HASHES: Tree = dict.fromkeys(HASH_KEYS, LEAF)
WANTED: Tree = {ANNOTATIONS: {**HASHES, MANAGER: LEAF, **{f"{PREFIX}{name}": LEAF for name in NEEDED}}}


@dataclass(frozen=True, slots=True)
class StoredSpecification(HashText):
    """The ``config.json`` of one container."""

    RUNTIME = "CRI-O"
    WHAT = "config.json"

    path: PurePosixPath = field(default=PurePosixPath("/"), compare=False)  # where it is on the node

    def spans(self) -> Spans:
        places = self._known_form()
        literal = places.spans[ANNOTATIONS, INNER]
        if not isinstance(text := places.value(ANNOTATIONS, INNER), str):
            raise self.unexpected("its annotations for CRI-O are not a text")
        inner, found = self.places(text, HASHES, "the text of its annotations for CRI-O"), {}
        for name in self.NAMES:
            if (span := self.hash_span(inner, name)) is None:
                continue  # a copy alone is the annotation of a pod, whose author chose it
            read = place_in_literal(places.text, literal.start, span)
            if places.text[read] != text[span]:
                raise self.unexpected(f"its annotation {name} is written with escapes")
            copy = self.hash_span(places, ANNOTATIONS, name)
            found[name] = (read,) if copy is None else (read, copy)
        return found

    def sandbox(self) -> SandboxId:
        """Return the id of the container's sandbox."""
        return SandboxId(str(self._known_form().value(ANNOTATIONS, SANDBOX)))

    def _known_form(self) -> Places:
        """Return the annotations of the specification."""
        places = self.places(self.data.decode("latin-1"), WANTED, "its config.json")
        if not places.is_object(ANNOTATIONS):
            raise self.unexpected("it has no annotations")
        if missing := [name for name in NEEDED if not places.has(ANNOTATIONS, f"{PREFIX}{name}")]:
            raise self.unexpected(f"it lacks what CRI-O needs to find it again: {', '.join(missing)}")
        if (manager := places.value(ANNOTATIONS, MANAGER)) not in (None, "cri-o"):
            raise self.unexpected(f"it is managed by {manager}")
        return places
