"""Parse YAML files written by people: several documents, of several kinds, with the line of each field."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.reading import parse_spec
from nodeupgrade.api.yaml import Position, read_all
from nodeupgrade.cli.program import CannotError
from nodeupgrade.domain.catalogue import wrong_names
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout.lint import is_valid, lint
from nodeupgrade.ports.kube import TASKS, UPGRADES

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object of a file."""

    file: str  # its name as given on the command line
    body: Any  # the parsed content; not always an object
    place: Position
    # fields that occur twice, of which YAML would silently take the last, and their lines
    repeated: tuple[tuple[str, int], ...] = ()

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
        place, line = self.place, self.place.line
        for index, key in _STEP.findall(path):
            found = _child(place, index or key)
            if found is None:
                break
            line, place = found
        return line


def documents(text: str, file: str) -> list[Document]:
    """Parse all documents of a file; the items of a List count as documents.

    Raises:
        CannotError: It is not YAML, or not an input that Kubernetes accepts.
    """
    try:
        return [each for parsed in read_all(text, places=True) for each in _split(file, parsed.value, parsed.place)]
    except (yaml.YAMLError, UnicodeError) as error:
        raise CannotError(f"cannot read {file} because it is not YAML: {error}") from error


def _split(file: str, body: Any, place: Position | None) -> Iterator[Document]:
    if body is None or place is None:
        return
    whole = Document(file=file, body=body, place=place, repeated=_repeated(place))
    items = place.fields.get("items") if whole.kind.endswith("List") else None
    if items is None or not isinstance(body["items"], list):
        yield whole
        return
    for item, where in zip(body["items"], items[1].items, strict=True):
        yield Document(file=file, body=item, place=where, repeated=_repeated(where))


def _child(place: Position, key: str) -> tuple[int, Position] | None:
    """Return the line and the position of a field, or of an item by its index."""
    if key in place.fields:
        return place.fields[key]
    if place.items and key.isdecimal() and int(key) < len(place.items):
        item = place.items[int(key)]
        return item.line, item
    return None


def _repeated(place: Position) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(_found_again(place, ""), key=lambda found: found[1]))


def _found_again(place: Position, path: str) -> Iterator[tuple[str, int]]:
    for key, line in place.repeated:
        yield f"{path}.{key}" if path else key, line
    for key, (_, value) in place.fields.items():
        yield from _found_again(value, f"{path}.{key}" if path else key)
    for number, item in enumerate(place.items):
        yield from _found_again(item, f"{path}[{number}]")


# Find what is wrong with the NodeUpgrades of a file, and where.


@dataclass(frozen=True, slots=True, kw_only=True)
class LintResult:
    """A finding and its place in the file, as the command prints it."""

    file: str
    line: int
    object: str
    path: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        what = "warning: " if self.warning else ""
        return f"{self.file}:{self.line}: {what}{self.path}: {self.message}"


def is_upgrade(document: Document) -> bool:
    """Report whether it is a NodeUpgrade, or was meant to be one."""
    version = document.body.get("apiVersion") if isinstance(document.body, dict) else ""
    ours = str(version).startswith(f"{UPGRADES.group}/") and document.kind != TASKS.kind
    return ours or document.kind.casefold() == UPGRADES.kind.casefold()


def results(document: Document, previous: Json | None, now: datetime) -> list[LintResult]:
    """Find everything that is wrong with a document, or with replacing another one by it, from top to bottom."""
    return sorted(_found(document, previous, now), key=lambda result: (result.line, result.path))


def _found(document: Document, previous: Json | None, now: datetime) -> Iterator[LintResult]:
    at = partial(LintResult, file=document.file, object=document.name)
    for path, line in document.repeated:
        yield at(line=line, path=path, message="it is given twice, and only the last counts; remove one")
    for finding in (*lint(document.body, previous, now=now), *_names(document.body)):
        path, line = finding.subject or "the object", document.line(finding.subject)
        yield at(line=line, path=path, message=finding.detail, warning=not finding.forbids)


def _names(body: Any) -> Iterator[Finding]:  # Any: unvalidated JSON
    """Yield names of checks that are not possible; a spec with other errors is not looked at."""
    spec = body.get("spec") if isinstance(body, dict) else None
    return wrong_names(parse_spec(spec)) if is_valid(spec) else iter(())
