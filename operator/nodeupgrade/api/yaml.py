"""Reads YAML as Kubernetes does, safely even from untrusted sources. Dates and keys are text.

PyYAML's own loaders compose documents recursively in C and expand aliases without limit. The input here comes from
files and pipes, so nesting depth and aliases are bounded, and nothing but plain values is created.
"""

import io
import re
import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import Any, Protocol

import yaml

from nodeupgrade.text import parse_base64

DEEPEST = 100
MOST_BY_ALIASES = 100_000

Value = Any  # Any: whatever YAML can express, not yet validated

_TAG = "tag:yaml.org,2002:"
_FAST: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MERGE = "<<"
_INTEGER = re.compile(
    r"([-+]?)(?:0([0-7]+)|0[xX][0-9a-fA-F]+|0[bB][01]+|0b[-+][01]+|0[oO][0-7]+|0|[1-9][0-9]*)", re.ASCII
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
"""Of yaml.v2, which sigs.k8s.io/yaml contains (resolve.go); PyYAML requires a point and a sign of a float."""
_SEPARATED = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?", re.ASCII)
"""Of a float that begins with its point, underscores must separate digits."""
_LONGEST = 100
"""Characters; 66 are enough for any integer without leading zeros."""
_LEAST, _MOST_SIGNED, _MOST = -(2**63), 2**63 - 1, 2**64 - 1
_LATE_MARK = re.compile("[\n\r\x85\u2028\u2029\ufeff]\ufeff")
_BEGINNINGS = frozenset("+-.0123456789")
_EXPONENT_FROM = 1e21
"""From here on Go writes a number with an exponent."""
_PLAIN_UP_TO = 6
"""Digits of a key before its point, less one: from there on it has an exponent."""
_WORDS: Mapping[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), nan),
}
"""Of yaml.v2 (resolve.go)."""


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

    Raises:
        yaml.YAMLError: it is not YAML, is too deep or too large, or there is more than one document.
        UnicodeError: it is not text.
    """
    documents = list(read_all(text.decode() if isinstance(text, bytes) else text))
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
    return next(read_all(text.decode() if isinstance(text, bytes) else text), None)


def read_all(source: str | Readable, *, lines: bool = False) -> Iterator[Value]:
    """Read document by document, so that a long stream needs no more memory than its largest document.

    Args:
        source: the text, or a stream to read it from.
        lines: whether maps and lists are to know their lines, as `Map` and `Items`.

    Raises:
        yaml.YAMLError: it is not YAML, or is too deep or too large.
        UnicodeError: it is not text.
    """
    return _documents(yaml.parse(_Checked(source), Loader=_FAST), lines=lines)


def write_one(document: object, *, ascii_only: bool = False) -> str:
    """Return whatever JSON can be made of as YAML that Go reads as it is: text that looks like a number is quoted."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=not ascii_only))


class _Dumper(yaml.SafeDumper):
    """PyYAML's, which takes fewer texts for numbers than Go does: ``12345e67`` may be a hash."""


def _quoted(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(_resolved(text), str) else "'"
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _quoted)


def _documents(events: Iterator[Any], *, lines: bool) -> Iterator[Value]:
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            if event.version not in {None, (1, 1)}:
                raise _refusal(event, "Kubernetes reads YAML 1.1")
            yield _Document(events, lines=lines).read()


class _Checked:
    """A stream without what libyaml reads in its own way: NUL ends it, a mark at the start of a line is lost."""

    name = "input"

    def __init__(self, source: str | Readable) -> None:
        self._source: Readable = io.StringIO(source) if isinstance(source, str) else source
        self._last = ""

    def read(self, size: int = -1) -> str:
        text = self._source.read(size)
        if "\0" in text:
            raise UnreadableYamlError(problem="it contains a NUL character")
        if "\ufeff" in text and _LATE_MARK.search(self._last + text):
            raise UnreadableYamlError(problem="a line begins with a byte order mark")
        self._last = text[-1:] or self._last
        return text


class _Document:
    """Builds values from the parser events of one document."""

    def __init__(self, events: Iterator[Any], *, lines: bool) -> None:
        self._events = events
        self._lines = lines
        self._made = 0
        self._anchors: dict[str, tuple[Value, int] | int] = {}  # a number: its value is still being read

    def read(self) -> Value:
        value = self._value(next(self._events), 0)
        next(self._events)  # the end of the document: only now is it known that nothing else belongs to it
        return value

    def _value(self, event: Any, depth: int, *, key: bool = False) -> Value:
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        if depth > DEEPEST:
            raise _refusal(event, f"it is nested more than {DEEPEST} levels deep")
        before = self._made
        self._made += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = before
        value: Value
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event)
                if isinstance(value, float) and not key and not isfinite(value):
                    raise _refusal(event, "JSON has no infinity, and nothing that is not a number")
            case yaml.SequenceStartEvent():
                _require_type(event, "seq")
                value = self._sequence(depth)
            case _:
                _require_type(event, "map")
                value = self._mapping(event.start_mark.line + 1, depth)
        if event.anchor is not None and self._anchors[event.anchor] == before:  # not given again within
            self._anchors[event.anchor] = (value, self._made - before)
        return value

    def _aliased(self, event: Any) -> Value:
        if event.anchor not in self._anchors:
            raise _refusal(event, "an alias has no anchor")
        anchored = self._anchors[event.anchor]
        if isinstance(anchored, int):
            raise _refusal(event, "an alias refers to a value that contains the alias")
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
        given = dict[str, tuple[type, Value]]()
        values = Map(begins) if self._lines else dict[str, Value]()
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            name, written = self._key(event, depth)
            item = self._value(next(self._events), depth + 1)
            if name is None:
                values.update(_merged(event, item))  # also over keys before it: yaml.v2 goes in order
                given.clear()
                continue
            if given.setdefault(name, written) != written:
                raise _refusal(event, f"two keys are {name!r} in JSON; which of them counts is left to chance")
            if isinstance(values, Map):
                line = event.start_mark.line + 1
                if name in values:
                    values.repeated.append((name, line))
                values.lines[name] = line
            values[name] = item
        return values

    def _key(self, event: Any, depth: int) -> tuple[str | None, tuple[type, Value]]:
        """Return a key as text, as in JSON, and what is written: a type and a value; no text for the merge key."""
        if isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]:
            return None, (str, _MERGE)
        value = self._value(event, depth + 1, key=True)
        name = _key_text(event, value)
        is_fraction = isinstance(value, int | float) and not isinstance(value, bool) and _integer(event.value) is None
        return name, (float if is_fraction else type(value), value)


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
        raise _refusal(event, "its type does not exist")


def _scalar(event: Any) -> Value:
    """Return a scalar's value, by the resolve() of yaml.v2."""
    text: str = event.value
    if event.tag == "!" and not text and not event.style:
        raise _refusal(event, "nothing follows a !")  # Go takes some characters that follow it for a part of it
    if event.tag == "!" or (event.tag is None and not event.implicit[0]):
        return text
    kind = event.tag and event.tag.removeprefix(_TAG)
    if kind in {"str", "value", "merge"}:
        return text
    if kind == "binary":
        return _decoded(event)
    value = _resolved(text)
    match kind:
        case None:
            return value
        case "null" if value is None:
            return value
        case "bool" if isinstance(value, bool):
            return value
        case "int" if _integer(text) is not None:
            return value
        case "float" if isinstance(value, int | float) and not isinstance(value, bool):
            if (whole := _integer(text)) is None or whole <= _MOST_SIGNED:
                return value if isinstance(value, float) else _fraction(str(value))
    raise _refusal(event, "its value is not of the type that it names, or that type does not exist")


def _resolved(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    number = _number(text) if text[:1] in _BEGINNINGS else None
    return text if number is None else number


def _key_text(event: Any, value: Value) -> str:
    """Return a key as sigs.k8s.io/yaml writes it: a fraction in 32 bits."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() if isinstance(event, yaml.ScalarEvent):
            if (whole := _integer(event.value)) is None:
                return _shortest(float(event.value.replace("_", "")) if isfinite(value) else value)
            if whole <= _MOST_SIGNED:
                return str(whole)
    raise _refusal(event, "a key is not a string")


def _shortest(value: float) -> str:
    """Write a number as Go's FormatFloat(value, 'g', -1, 32) does."""
    try:
        (narrow,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        narrow = copysign(inf, value)
    if not isfinite(narrow):
        return ".nan" if isnan(narrow) else ".inf" if narrow > 0 else "-.inf"
    packed = struct.pack("f", narrow)
    texts = (f"{narrow:.{digits}e}" for digits in range(9))
    written = next(text for text in texts if struct.pack("f", float(text)) == packed)
    exponent = int(written.partition("e")[2])
    return f"{Decimal(written):f}" if -4 <= exponent < _PLAIN_UP_TO else written


def _integer(text: str) -> int | None:
    """Read an integer as Go's parser does; ``None`` if it is none."""
    plain = text.replace("_", "")
    if text[:1] not in _BEGINNINGS or len(plain) > _LONGEST or (found := _INTEGER.fullmatch(plain)) is None:
        return None
    if found[0][:2] == "0b" and found[0][2] in "+-":  # Go reads what follows 0b as a number of its own
        return int(found[0][2:], 2)  # noqa: FURB166 - a sign follows the prefix
    value = int(f"{found[1]}{found[2].lstrip('0') or '0'}", 8) if found[2] else int(plain, 0)
    return value if _LEAST <= value <= (_MOST_SIGNED if found[1] else _MOST) else None


def _number(text: str) -> int | float | None:
    """Read a number as Go's parser does; ``None`` if it is none, but text."""
    plain = text.replace("_", "")
    if text.startswith(".") and plain != text and not _SEPARATED.fullmatch(text):
        return None
    if (whole := _integer(text)) is not None:
        return whole
    return _fraction(plain) if _FLOAT.fullmatch(plain) else None


def _fraction(text: str) -> int | float | None:
    """Read a float; one without a fraction is an integer in JSON, so it is here. ``None`` if it is out of range."""
    value = float(text)
    if isinf(value):
        return None
    return int(Decimal(repr(value))) if value.is_integer() and abs(value) < _EXPONENT_FROM else value


def _decoded(event: Any) -> str:
    try:
        return parse_base64(event.value).decode()
    except ValueError:
        raise _refusal(event, "the value after !!binary is not base64, or not of text") from None


def _refusal(event: Any, problem: str) -> UnreadableYamlError:
    """Return an error that says where, and repeats no value: whoever reads it may not be allowed to read the text."""
    return UnreadableYamlError(problem=problem, problem_mark=event.start_mark)
