"""Reads YAML as Kubernetes does, safely even from untrusted sources. Dates and keys are text.

PyYAML's own loaders compose documents recursively in C and expand aliases without limit. The input here comes from
files and pipes, so nesting depth and aliases are bounded, and nothing but plain values is created.
"""

import base64
import binascii
import io
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isinf
from typing import Any, Protocol

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

DEEPEST = 100
MOST_BY_ALIASES = 100_000

Value = Any  # Any: whatever YAML can express, not yet validated

_TAG = "tag:yaml.org,2002:"
_FAST: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MERGE = "<<"
_INTEGER = re.compile(r"([-+]?)(?:0([0-7]+)|0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
"""Of yaml.v2, which sigs.k8s.io/yaml contains (resolve.go); PyYAML requires a point and a sign of a float."""
_SEPARATED = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
"""Of a float that begins with its point, underscores must separate digits."""
_LONGEST = 100
"""Characters; 66 are enough for any integer without leading zeros."""
_LEAST, _MOST_SIGNED, _MOST = -(2**63), 2**63 - 1, 2**64 - 1
_BEGINNINGS = frozenset("+-.0123456789")
_EXPONENT_FROM = 1e21
"""From here on Go writes a number with an exponent."""


class Readable(Protocol):
    """The part of a text stream that is needed here."""

    def read(self, size: int = -1, /) -> str:
        """Return at most ``size`` characters; empty at the end."""


class Items(list[Value]):
    """A list that knows the line where each of its items begins, counted from 1."""

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: list[int] = []


class Map(dict[str, Value]):
    """A map that knows the line of each key that is written in it, counted from 1."""

    __slots__ = ("line", "lines", "repeated")

    def __init__(self, line: int) -> None:
        self.line = line  # where it begins
        self.lines: dict[str, int] = {}
        self.repeated: list[tuple[str, int]] = []  # keys that are given again, each with the line of the repetition


class UnreadableYamlError(yaml.MarkedYAMLError):
    """The text is YAML, but not acceptable here."""


def read_one(text: str | bytes) -> Value:
    """Read the only document of a text; ``None`` if there is none.

    Uses PyYAML's pure Python parser, whose positions edits depend on and which is stricter about tabs than libyaml.

    Raises:
        yaml.YAMLError: it is not YAML, is too deep or too large, or there is more than one document.
    """
    documents = list(_documents(yaml.parse(text, Loader=yaml.SafeLoader), lines=False))
    if len(documents) > 1:
        raise UnreadableYamlError(problem="it contains more than one document")
    return documents[0] if documents else None


def read_first(text: str | bytes) -> Value:
    """Read the first document of a text, as kubelets read a file; ``None`` if there is none. The rest may be broken.

    libyaml is what Go's parser was made from: both accept tabs between the tokens of JSON.

    Raises:
        yaml.YAMLError: the document is not YAML, or is too deep or too large.
        UnicodeError: it is not text.
    """
    return next(read_all(text.decode("utf-8-sig") if isinstance(text, bytes) else text), None)


def read_all(source: str | Readable, *, lines: bool = False) -> Iterator[Value]:
    """Read document by document, so that a long stream needs no more memory than its largest document.

    Args:
        source: the text, or a stream to read it from.
        lines: whether maps and lists are to know their lines, as `Map` and `Items`.

    Raises:
        yaml.YAMLError: it is not YAML, or is too deep or too large.
        UnicodeError: it is not text.
    """
    return _documents(yaml.parse(_WithoutNul(source), Loader=_FAST), lines=lines)


def write_one(document: object, *, ascii_only: bool = False) -> str:
    """Return whatever JSON can be made of as YAML that Go reads as it is: text that looks like a number is quoted."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=not ascii_only))


class _Dumper(yaml.SafeDumper):
    """PyYAML's, which takes fewer texts for numbers than Go does: ``12345e67`` may be a hash."""


def _quoted(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if text[:1] in _BEGINNINGS and _number(text) is not None else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _quoted)


def _documents(events: Iterator[Any], *, lines: bool) -> Iterator[Value]:
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _Document(events, lines=lines).read()


class _WithoutNul:
    """A stream that rejects NUL characters, which libyaml takes for the end of the stream."""

    name = "input"

    def __init__(self, source: str | Readable) -> None:
        self._source: Readable = io.StringIO(source) if isinstance(source, str) else source

    def read(self, size: int = -1) -> str:
        text = self._source.read(size)
        if "\0" in text:
            raise UnreadableYamlError(problem="it contains a NUL character")
        return text


class _Document:
    """Builds values from the parser events of one document."""

    def __init__(self, events: Iterator[Any], *, lines: bool) -> None:
        self._events = events
        self._lines = lines
        self._made = 0
        self._anchors: dict[str, tuple[Value, int] | None] = {}

    def read(self) -> Value:
        return self._value(next(self._events), 0)

    def _value(self, event: Any, depth: int) -> Value:
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        if depth > DEEPEST:
            raise _refusal(event, f"it is nested more than {DEEPEST} levels deep")
        before = self._made
        self._made += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        value: Value
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event)
            case yaml.SequenceStartEvent():
                _require_type(event, "seq")
                value = self._sequence(depth)
            case _:
                _require_type(event, "map")
                value = self._mapping(event.start_mark.line + 1, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._made - before)
        return value

    def _aliased(self, event: Any) -> Value:
        if event.anchor not in self._anchors:
            raise _refusal(event, f"the alias *{event.anchor} has no anchor")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _refusal(event, f"the alias *{event.anchor} refers to a value that contains the alias")
        value, size = anchored
        self._made += size
        if size > MOST_BY_ALIASES or self._made > MOST_BY_ALIASES + event.start_mark.index:
            raise _refusal(event, f"its aliases expand to more than {MOST_BY_ALIASES} values")
        return value

    def _sequence(self, depth: int) -> list[Value]:
        values = Items() if self._lines else list[Value]()
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            values.append(self._value(event, depth + 1))
            if isinstance(values, Items):
                values.lines.append(event.start_mark.line + 1)
        return values

    def _mapping(self, begins: int, depth: int) -> dict[str, Value]:
        values, merged = Map(begins) if self._lines else dict[str, Value](), dict[str, Value]()
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            name, item = self._key(event, depth), self._value(next(self._events), depth + 1)
            if name is None:
                merged = {**_merged(event, item), **merged}
                continue
            if isinstance(values, Map):
                line = event.start_mark.line + 1
                if name in values:
                    values.repeated.append((name, line))
                values.lines[name] = line
            values[name] = item
        for name, item in merged.items():
            values.setdefault(name, item)
        return values

    def _key(self, event: Any, depth: int) -> str | None:
        """Return a key as text, as in JSON; ``None`` for the merge key."""
        if isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]:
            return None
        match self._value(event, depth + 1):
            case str() as name:
                return name
            case bool() as name:
                return "true" if name else "false"
            case None | int() | float():
                return str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
            case _:
                raise _refusal(event, "a key is not a string")


def _merged(event: Any, value: Value) -> dict[str, Value]:
    together: dict[str, Value] = {}
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, Mapping):
            raise _refusal(event, f"{_MERGE} takes a map, or a list of maps")
        for key, item in each.items():
            together.setdefault(key, item)
    return together


def _require_type(event: Any, kind: str) -> None:
    if event.tag not in {None, "!", f"{_TAG}{kind}"}:
        raise _refusal(event, f"the type {event.tag} does not exist")


class _Scalars(SafeConstructor, Resolver):
    """PyYAML's resolution and construction of a single scalar."""

    def __init__(self) -> None:
        SafeConstructor.__init__(self)
        Resolver.__init__(self)


_SCALARS: Any = _Scalars()  # Any: PyYAML's resolver has no types


def _scalar(event: Any) -> Value:
    text: str = event.value
    tag = event.tag
    if tag in {None, "!"}:
        if not event.implicit[0]:
            return text
        if text[:1] in _BEGINNINGS and (number := _number(text)) is not None:
            return number
        tag = _SCALARS.resolve(yaml.ScalarNode, text, (True, False))
    match tag.removeprefix(_TAG):
        case "str" | "timestamp" | "value" | "merge":
            return text
        case "null":
            return None
        case "bool":
            return _SCALARS.bool_values.get(text.lower(), text)
        case "int":
            return text if (number := _number(text)) is None else number
        case "float" if text.lower().endswith((".inf", ".nan")):
            return _SCALARS.construct_yaml_float(yaml.ScalarNode(f"{_TAG}float", text))
        case "float":
            return text if (number := _number(text)) is None else number
        case "binary":
            return _decoded(event)
    raise _refusal(event, f"the type {tag} does not exist")


def _number(text: str) -> int | float | None:
    """Read a number as Go's parser does; ``None`` if it is none, but text."""
    plain = text.replace("_", "")
    if text.startswith(".") and plain != text and not _SEPARATED.fullmatch(text):
        return None
    if len(plain) <= _LONGEST and (found := _INTEGER.fullmatch(plain)) is not None:
        value = int(f"{found[1]}{found[2].lstrip('0') or '0'}", 8) if found[2] else int(plain, 0)
        if _LEAST <= value <= (_MOST_SIGNED if found[1] else _MOST):
            return value
    return _fraction(plain) if _FLOAT.fullmatch(plain) else None


def _fraction(text: str) -> int | float | None:
    """Read a float; one without a fraction is an integer in JSON, so it is here. ``None`` if it is out of range."""
    value = float(text)
    if isinf(value):
        return None
    return int(Decimal(repr(value))) if value.is_integer() and 0 < abs(value) < _EXPONENT_FROM else value


def _decoded(event: Any) -> str:
    try:
        return base64.b64decode(event.value, validate=False).decode()
    except (binascii.Error, ValueError):
        raise _refusal(event, "the value after !!binary is not base64") from None


def _refusal(event: Any, problem: str) -> UnreadableYamlError:
    return UnreadableYamlError(problem=problem, problem_mark=event.start_mark)
