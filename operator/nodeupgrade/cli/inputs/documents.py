"""Parse YAML files written by people: several documents, of several kinds, with the line of each field."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from nodeupgrade.api.yaml import Items, Map, read_all
from nodeupgrade.cli.program import CannotError

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file."""

    file: str  # its name as given on the command line
    body: Any  # the parsed content; not always an object
    begins: int = 1  # its first line in the file

    @property
    def kind(self) -> str:
        """The object's kind; empty if it has none."""
        return str(self.body.get("kind") or "") if isinstance(self.body, dict) else ""

    @property
    def name(self) -> str:
        """The object's name; empty if it has none."""
        metadata = self.body.get("metadata") if isinstance(self.body, dict) else None
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    def line(self, path: str) -> int:
        """Return the line of a field such as ``spec.waves[1].size``, or of its innermost parent that exists."""
        value, line = self.body, self.begins
        for index, key in _STEP.findall(path):
            name = index or key
            if isinstance(value, Map) and name in value.lines:
                value, line = value[name], value.lines[name]
            elif isinstance(value, Items) and name.isdecimal() and int(name) < len(value):
                value, line = value[int(name)], value.lines[int(name)]
            else:
                break
        return line

    @property
    def repeated(self) -> Iterator[tuple[str, int]]:
        """Fields that occur twice, of which YAML would silently take the last, with their lines."""
        return _repeated(self.body, "")


def documents(text: str, file: str) -> list[Document]:
    """Parse all documents of a file; the items of a List count as documents.

    Raises:
        CannotError: It is not YAML, or not an input that Kubernetes accepts.
    """
    try:
        return [each for body in read_all(text, lines=True) for each in _split(file, body)]
    except (yaml.YAMLError, UnicodeError) as error:
        raise CannotError(f"cannot read {file} because it is not YAML: {error}") from error


def _split(file: str, body: Any) -> Iterator[Document]:
    if body is None:
        return
    whole = Document(file=file, body=body, begins=body.line if isinstance(body, Map) else 1)
    items = body.get("items") if whole.kind.endswith("List") else None
    if not isinstance(items, Items):
        yield whole
        return
    for item, line in zip(items, items.lines, strict=True):
        yield Document(file=file, body=item, begins=line)


def _repeated(value: Any, path: str) -> Iterator[tuple[str, int]]:
    match value:
        case Map():
            yield from ((f"{path}.{key}" if path else key, line) for key, line in value.repeated)
            for key in value.lines:
                yield from _repeated(value[key], f"{path}.{key}" if path else key)
        case Items():
            for number, item in enumerate(value):
                yield from _repeated(item, f"{path}[{number}]")
