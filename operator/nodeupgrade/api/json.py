"""Encodes frozen dataclasses as JSON and decodes them, for API objects and for files on a node.

In API objects, names are camelCase with Kubernetes' abbreviations (``run_id`` is ``runID``), ``None`` is omitted, and
unknown fields are ignored, since a newer writer may have added them.

Files on a node are ``strict``: names are Python's, every field is written, and unknown fields are rejected, since the
same program wrote the file. They must be readable in an emergency with a pager. Bytes are base64.
"""

import base64
import json
import types
import typing
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, NewType, TypeAlias, TypeVar, Union, get_args, get_origin

from nodeupgrade.api.duration import parse_duration, render_duration
from nodeupgrade.api.errors import NodeUpgradeError
from nodeupgrade.api.field import Field
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.text import parse_base64, parse_json, parse_time

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


Json: TypeAlias = dict[str, Any]  # Any: JSON has no narrower type before it is read
"""A JSON object."""


T = TypeVar("T")


_SECOND = timedelta(seconds=1)
_PLAIN = frozenset({type(None), bool, int, float, str})


def to_json(value: object, *, strict: bool = False) -> Any:
    """Encode a dataclass, or anything that one may contain, as JSON.

    Raises:
        TypeError: The value contains something that JSON cannot represent.
    """
    return _encode(value, strict=strict, resolved=False)


def _encode(value: object, *, strict: bool, resolved: bool) -> Any:
    if type(value) in _PLAIN:  # most values are, and a match would try every pattern before
        return value
    match value:
        case StrEnum():
            return value.value
        case dict() | Mapping():
            return {str(key): _encode(item, strict=strict, resolved=False) for key, item in value.items()}
        case tuple() | list() | frozenset():
            return [_encode(item, strict=strict, resolved=False) for item in value]
        case bool() | int() | float() | str():
            return value
        case datetime() if not strict:
            return timestamp(value)
        case timedelta() if not strict:
            return value // _SECOND if resolved else render_duration(value)
        case IntOrPercent() if not strict:
            return value.render()
        case bytes() if strict:
            return base64.b64encode(value).decode("ascii")
        case _ if is_dataclass(value) and not isinstance(value, type):
            return _encoded_members(value, strict=strict, resolved=resolved)
        case _:
            raise TypeError(f"cannot encode {type(value).__name__}")


def _encoded_members(value: object, *, strict: bool, resolved: bool) -> Json:
    encoded: Json = {}
    for member in members_of(typing.cast("Hashable", type(value)), strict=strict, resolved=resolved):
        item = getattr(value, member.attribute)
        if strict or item is not None:
            encoded[member.name] = _encode(item, strict=strict, resolved=member.resolved)
    return encoded


def merge_patch(before: Json, after: Json) -> Json:
    """Return the RFC 7386 patch that turns ``before`` into exactly ``after``."""
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch


def timestamp(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC, with milliseconds only if there are any."""
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def from_json(kind: type[T], data: object, path: str = "", *, strict: bool = False) -> T:
    """Decode a dataclass from JSON.

    Args:
        kind: The dataclass to build.
        data: A JSON object.
        path: The path of the object, for messages.
        strict: Whether the data comes from a file on a node; then nothing is guessed or dropped.

    Raises:
        MalformedObjectError: A field of an API object is missing or has the wrong type.
        MalformedFileError: The data of a file does not have the shape that the type requires.
    """
    read = reader_of(typing.cast("Hashable", kind), strict=strict, resolved=False)
    try:
        return typing.cast("T", read(data))
    except MalformedObjectError as error:
        error = error.below(path or ("$" if strict else ""))
        if strict:
            raise MalformedFileError(f"{error.path}: {error.problem}") from error
        raise error from None


def read_record(data: bytes | None, otherwise: T) -> T:
    """Decode a file on a node in which a program remembers something; what cannot be read proves nothing."""
    try:
        return otherwise if data is None else from_json(type(otherwise), parse_json(data), strict=True)
    except (ValueError, MalformedFileError):
        return otherwise


def render_record(value: object) -> bytes:
    """Return what `read_record` reads."""
    return json.dumps(to_json(value, strict=True), indent=1).encode()


_ABBREVIATIONS = {"id": "ID", "uid": "UID", "url": "URL"}


class MalformedObjectError(NodeUpgradeError):
    """A field of an API object is missing or has a value of the wrong type."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"cannot read {path or 'the object'} because {problem}")
        self.path = path
        self.problem = problem

    def below(self, path: str) -> "MalformedObjectError":
        """Return the error of an object whose field or item has this one."""
        between = "." if path and self.path and not self.path.startswith("[") else ""
        return MalformedObjectError(f"{path}{between}{self.path}", self.problem)


class MalformedFileError(ValueError):
    """A file on a node does not have the shape that its type requires; the message names the path."""


@cache
def field_name(name: str) -> str:
    """Convert a Python field name to the API's, such as ``node_uid`` to ``nodeUID``."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(_ABBREVIATIONS.get(part, part.capitalize()) for part in tail)


def seconds_name(name: str) -> str:
    """Return the API's field name for a duration that is written as a number of seconds."""
    return f"{name}Seconds"


Reader: TypeAlias = Callable[[object], object]
"""Decodes one value; an error has the path below that value."""


class Member(NamedTuple):
    """How to decode and encode one field of a dataclass; for ``resolved``, see ``Field``."""

    attribute: str
    name: str
    read: Reader
    required: bool
    resolved: bool


@cache
def members_of(kind: Hashable, *, strict: bool, resolved: bool) -> tuple[Member, ...]:
    """Return how the fields of a dataclass are read and written, in order."""
    hints = typing.get_type_hints(typing.cast("type", kind), include_extras=True)
    members = []
    for field in fields(typing.cast("Any", kind)):  # cast: callers pass dataclasses only, which mypy cannot express
        hint = hints[field.name]
        in_seconds = resolved and _bare_type(hint) is timedelta
        name = field.name if strict else field_name(field.name)
        marked = in_seconds or any(mark.resolved for mark in _marks(hint))
        members.append(
            Member(
                attribute=field.name,
                name=seconds_name(name) if in_seconds else name,
                read=reader_of(hint, strict=strict, resolved=marked),
                required=field.default is MISSING and field.default_factory is MISSING,
                resolved=marked,
            )
        )
    return tuple(members)


def _marks(hint: Any) -> Iterator[Field]:
    return (mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Field))


def _bare_type(hint: Any) -> Any:
    """Return the type without its annotations."""
    while isinstance(hint, NewType) or get_origin(hint) is Annotated:
        hint = hint.__supertype__ if isinstance(hint, NewType) else hint.__origin__
    return hint


@cache
def reader_of(hint: Any, *, strict: bool, resolved: bool) -> Reader:
    """Return the decoder for a type. Cached, since a fleet has thousands of objects."""
    kind = _bare_type(hint)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in {Any, object}:
        return _unchanged
    if origin in {Union, types.UnionType}:
        present = [argument for argument in arguments if argument is not type(None)]
        if len(present) > 1:
            return _unchanged  # JsonValue: anything
        return partial(_optional, reader_of(present[0], strict=strict, resolved=resolved))
    if origin is tuple:
        return partial(_items, reader_of(arguments[0], strict=strict, resolved=False))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_entries, reader_of(arguments[1], strict=strict, resolved=False))
    if is_dataclass(kind) and kind not in _TEXTS:
        return partial(_object, typing.cast("type", kind), strict, resolved)
    return _scalar_reader(kind, strict=strict, resolved=resolved)


def _scalar_reader(kind: Any, *, strict: bool, resolved: bool) -> Reader:
    if issubclass(kind, StrEnum):
        return partial(_enum_member, kind)
    if kind is float:
        return _number
    if strict and kind is bytes:
        return _bytes
    if resolved and kind is timedelta:
        return _seconds
    if not strict and kind is datetime:
        return _time
    if not strict and kind in _TEXTS:
        return partial(_parsed, kind)
    return partial(_expect, kind)


def _unchanged(data: object) -> object:
    return data


def _optional(read: Reader, data: object) -> object:
    return None if data is None else read(data)


def _items(read: Reader, data: object) -> tuple[object, ...]:
    return tuple(_below(f"[{index}]", read, item) for index, item in enumerate(_expect(list, data)))


def _entries(read: Reader, data: object) -> dict[str, object]:
    return {str(key): _below(f"[{key}]", read, item) for key, item in _expect(dict, data).items()}


def _below(path: str, read: Reader, data: object) -> object:
    try:
        return read(data)
    except MalformedObjectError as error:
        raise error.below(path) from None


def _object(kind: type, strict: bool, resolved: bool, data: object) -> object:
    given: Json = _expect(dict, data)
    members = members_of(typing.cast("Hashable", kind), strict=strict, resolved=resolved)
    if strict and (unknown := given.keys() - {member.name for member in members}):
        raise MalformedObjectError("", f"unknown field {min(unknown)!r} for {kind.__name__}")
    values: dict[str, object] = {}
    for attribute, name, read, required, _ in members:
        value = given.get(name)
        if name in given if strict else value is not None:  # in API objects, null stands for nothing
            values[attribute] = _below(name, read, value)
        elif required:
            raise MalformedObjectError(name, "it is missing")
    return kind(**values)


def _expect(kind: type[T], data: object) -> T:
    if isinstance(data, kind) and not (kind is int and isinstance(data, bool)):
        return data
    raise MalformedObjectError("", f"it is {type(data).__name__}, not {kind.__name__}")


def _number(data: object) -> float:
    if isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _expect(float, data)


def _seconds(data: object) -> timedelta:
    return timedelta(seconds=_expect(int, data))


def _enum_member(kind: type[StrEnum], data: object) -> StrEnum:
    text = _expect(str, data)
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise MalformedObjectError("", f"{data!r} is not one of {known}") from None


def _bytes(data: object) -> bytes:
    try:
        return parse_base64(data)
    except ValueError:
        raise MalformedObjectError("", "it is not base64") from None


def _time(data: object) -> datetime:
    try:
        return parse_time(data)
    except ValueError:
        raise MalformedObjectError("", f"{data!r} is not an RFC 3339 time") from None


_TEXTS: dict[object, Callable[[object], object]] = {timedelta: parse_duration, IntOrPercent: IntOrPercent.parse}
"""Types that the API represents as text or as a number, with their parsers."""


def _parsed(kind: object, data: object) -> object:
    try:
        return _TEXTS[kind](data)
    except ValueError as error:
        raise MalformedObjectError("", str(error)) from None
