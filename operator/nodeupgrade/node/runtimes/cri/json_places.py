"""Finds values in a JSON text by their place in the document, as spans of the text. Pure.

What a value *contains* is never searched: whoever creates a pod decides what stands in its environment, for example.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from nodeupgrade.text import parse_json

Tree: TypeAlias = "Mapping[str, Tree]"
"""The wanted members of an object by name, each with the wanted ones of its value."""
LEAF: Tree = {}

BLANKS = " \t\r\n"
_decode = json.JSONDecoder().raw_decode
# An escape stands for one character, even two surrogates.
_PARTS = re.compile(r"[^\\]+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Places:
    """The wanted values of a JSON object, by their path; a value that is missing has no place."""

    text: str
    spans: Mapping[tuple[str, ...], slice] = field(default_factory=dict)

    def has(self, *path: str) -> bool:
        return path in self.spans

    def value(self, *path: str) -> object:
        """Return the parsed value; ``None`` if it is missing."""
        return parse_json(self.text[self.spans[path]]) if path in self.spans else None

    def is_object(self, *path: str) -> bool:
        return self.has(*path) and self.text[self.spans[path]].startswith("{")


def find(text: str, wanted: Tree) -> Places:
    """Find the wanted members of the object that a text consists of. Every other value is read as well.

    Raises:
        ValueError: the text is not one JSON object, or a wanted member occurs twice in its object.
    """
    found: dict[tuple[str, ...], slice] = {}
    try:
        end = _walk(text, _past(text, 0, "{"), wanted, (), found)
    except (IndexError, RecursionError) as error:
        raise ValueError("it ends too early, or is nested too deeply") from error
    if text[end:].strip(BLANKS):
        raise ValueError(f"something follows the object at {end}")
    return Places(text, found)


def place_in_literal(text: str, start: int, part: slice) -> slice:
    """Return where a part of a string is written in a JSON text in which the string's literal begins at an index."""
    return slice(_written_at(text, start, part.start), _written_at(text, start, part.stop))


def _written_at(text: str, start: int, index: int) -> int:
    at = start + 1  # behind the quote
    while index > 0 and (found := _PARTS.match(text, at)) is not None:
        escaped = text[at] == "\\"
        at += len(found[0]) if escaped else min(index, len(found[0]))
        index -= 1 if escaped else min(index, len(found[0]))
    return at


def _walk(text: str, at: int, wanted: Tree, path: tuple[str, ...], found: dict[tuple[str, ...], slice]) -> int:
    """Collect the members of the object whose first member begins at an index; return the index behind the object."""
    if text[at] == "}":
        return at + 1
    while True:
        name, at = _decode(text, _require(text, at, '"'))
        start = _past(text, at, ":")
        here = (*path, str(name))
        if here in found:
            raise ValueError(f"{name} occurs twice")
        if wanted.get(name) and text[start] == "{":
            end = _walk(text, _past(text, start, "{"), wanted[name], here, found)
        else:
            _, end = _decode(text, start)
        if name in wanted:
            found[here] = slice(start, end)
        at = _skip(text, end)
        if text[at] == "}":
            return at + 1
        at = _past(text, at, ",")


def _past(text: str, at: int, mark: str) -> int:
    return _skip(text, _require(text, _skip(text, at), mark) + 1)


def _require(text: str, at: int, mark: str) -> int:
    if text[at] != mark:
        raise ValueError(f"{mark} is missing at {at}")
    return at


def _skip(text: str, at: int) -> int:
    while text[at] in BLANKS:
        at += 1
    return at
