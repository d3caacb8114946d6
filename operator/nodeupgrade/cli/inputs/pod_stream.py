"""Read pods one at a time from what `kubectl` or a person wrote: a Pod, a List, JSON lines or YAML.

JSON is read in pieces, so that the pods of a large cluster need not fit into memory. YAML is read one document at a
time.
"""

import json
from collections.abc import Iterator, Mapping
from typing import cast

import yaml

from nodeupgrade.api.yaml import Readable, read_all
from nodeupgrade.cli.program import CannotError

_PIECE = 1 << 16
_LARGEST_VALUE = 1 << 26
_LONGEST_NUMBER = 400
_SPACE = " \t\r\n"


def read_pods(stream: Readable) -> Iterator[object]:
    """Yield the objects of a stream, and the items of each List. The caller checks what each of them is.

    Raises:
        CannotError: the stream is neither JSON nor YAML, or not an input that Kubernetes accepts.
    """
    source = _JsonSource(stream)
    try:
        if source.peek() in {"{", "["}:
            yield from _from_json(source)
        else:
            yield from _from_yaml(source)
    except RecursionError:
        raise CannotError("cannot read the pods because the input is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise CannotError(f"cannot read the pods because {_no_json(error)}") from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise CannotError(f"cannot read the pods because the input is neither JSON nor YAML: {error}") from error
    except ValueError as error:  # a number that Kubernetes does not accept either
        raise CannotError(f"cannot read the pods because {error}") from None


def _no_json(error: json.JSONDecodeError) -> str:
    """Return what is wrong; positions would be those of a piece of the input, and help no reader."""
    rest = error.doc[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated"):
        return "the input ends in the middle of an object; check whether the command that writes it failed"
    return f"the input is neither JSON nor YAML: {error.msg.lower()} before {rest[:20]!r}"


def _whole(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"there is a number of {len(digits)} digits in the input")
    return int(digits)


def _constant(name: str) -> float:
    raise ValueError(f"JSON has no number {name}")


class _JsonSource:
    """A text stream from which JSON values are read one by one."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._ended = False
        self._decoder = json.JSONDecoder(parse_int=_whole, parse_constant=_constant)

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on(_PIECE):
                return ""

    def take(self, expected: str) -> None:
        """Skip one character, which must come next."""
        if self.peek() != expected:
            raise json.JSONDecodeError(f"Expecting {expected!r}", self._text, self._at)
        self._at += 1

    def value(self) -> object:
        """Read the next complete value."""
        self.peek()
        piece = _PIECE
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                # Most likely the text just ends too early. Reading ever larger pieces keeps the retries few.
                if len(self._text) - self._at > _LARGEST_VALUE or not self._read_on(piece):
                    raise
                piece *= 2
                continue
            if end == len(self._text) and isinstance(value, int | float) and self._read_on(piece):
                continue
            self._at = end
            return cast("object", value)

    def read(self, size: int = _PIECE, /) -> str:
        """Return raw text, as a file does."""
        if self._at >= len(self._text):
            return self._stream.read(size)
        rest, self._text = self._text[self._at :], ""
        self._at = 0
        return rest

    def _read_on(self, size: int) -> bool:
        more = self._stream.read(size)
        self._text = self._text[self._at :] + more
        self._at = 0
        return bool(more)


def _from_json(source: _JsonSource) -> Iterator[object]:
    while character := source.peek():
        match character:
            case "{":
                yield from _object(source)
            case "[":
                yield from _elements(source)
            case _:
                yield source.value()


def _object(source: _JsonSource) -> Iterator[object]:
    """Yield an object, or its items if it is a List, which shows only when its items are reached."""
    members: dict[str, object] = {}
    is_list = False
    source.take("{")
    while source.peek() != "}":
        key = source.value()
        source.take(":")
        if key == "items" and source.peek() == "[":
            is_list = True
            common = dict(members)
            yield from (_typed(item, common) for item in _elements(source))
        else:
            members[str(key)] = source.value()
        if source.peek() != "}":
            source.take(",")
    source.take("}")
    if not is_list:
        yield members


def _typed(item: object, of_list: Mapping[str, object]) -> object:
    """Return an item with the kind that a typed list, such as a PodList, says for all of them."""
    kind = str(of_list.get("kind", ""))
    if not isinstance(item, dict) or "kind" in item or not kind.endswith("List") or kind == "List":
        return item
    return {"apiVersion": of_list.get("apiVersion"), "kind": kind.removesuffix("List"), **item}


def _elements(source: _JsonSource) -> Iterator[object]:
    source.take("[")
    while source.peek() != "]":
        yield source.value()
        if source.peek() != "]":
            source.take(",")
    source.take("]")


def _from_yaml(source: _JsonSource) -> Iterator[object]:
    for body in read_all(source):
        if isinstance(body, dict) and isinstance(body.get("items"), list):
            yield from (_typed(item, body) for item in body["items"])
        elif body is not None:
            yield body
