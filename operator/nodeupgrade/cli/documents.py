"""YAML files as people write them: several documents, of several kinds, each field with the line it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from nodeupgrade.cli.pod_stream import KubernetesLoader
from nodeupgrade.cli.program import CannotError

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A field that is given twice in one object; YAML would silently take the last."""

    path: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file.

    Attributes:
        file: as it was named on the command line.
        body: what it says; not always an object.
        repeated: fields that are given twice.
    """

    file: str
    body: Any
    node: yaml.Node
    repeated: tuple[Repeated, ...] = ()

    @property
    def kind(self) -> str:
        """What kind of object it says it is; empty when it does not say."""
        return str(self.body.get("kind") or "") if isinstance(self.body, dict) else ""

    @property
    def name(self) -> str:
        """The object's name; empty when it has none."""
        metadata = self.body.get("metadata") if isinstance(self.body, dict) else None
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    def line(self, path: str) -> int:
        """Find the line of a field such as ``spec.waves[1].size``, or of the innermost part that is there."""
        node, line = self.node, self.node.start_mark.line + 1
        for index, key in _STEP.findall(path):
            found = _child(node, index or key)
            if found is None:
                break
            line, node = found
        return line


def documents(text: str, file: str) -> list[Document]:
    """Read all documents of a file; the items of a List count as documents.

    Raises:
        CannotError: It is no YAML.
    """
    loader = KubernetesLoader(text)
    found: list[Document] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            found += _split(Document(file=file, body=loader.construct_document(node), node=node))
    except yaml.YAMLError as error:
        raise CannotError(f"cannot read {file} because it is no YAML: {error}") from error
    finally:
        loader.dispose()
    return found


def _split(whole: Document) -> Iterator[Document]:
    if whole.body is None:
        return
    items = _child(whole.node, "items") if whole.kind.endswith("List") else None
    if items is None or not isinstance(items[1], yaml.SequenceNode):
        yield Document(file=whole.file, body=whole.body, node=whole.node, repeated=tuple(_repeated(whole.node, "")))
        return
    for body, node in zip(whole.body["items"], items[1].value, strict=True):
        yield Document(file=whole.file, body=body, node=node, repeated=tuple(_repeated(node, "")))


def _child(node: yaml.Node, key: str) -> tuple[int, yaml.Node] | None:
    """Return the line and the value of a field, or of an item by its number."""
    if isinstance(node, yaml.MappingNode):
        found = [(name.start_mark.line + 1, value) for name, value in node.value if name.value == key]
        return found[-1] if found else None
    if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
        item = node.value[int(key)]
        return item.start_mark.line + 1, item
    return None


def _repeated(node: yaml.Node, path: str) -> Iterator[Repeated]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for name, value in node.value:
            here = f"{path}.{name.value}" if path else str(name.value)
            if name.value in seen:
                yield Repeated(path=here, line=name.start_mark.line + 1)
            seen.add(name.value)
            yield from _repeated(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{number}]")
