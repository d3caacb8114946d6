"""How frozen dataclasses are written in, and read from, the JSON of API objects.

Names become camelCase with the API's habit for abbreviations (``run_id`` is ``runID``). Reading is strict
about types and closed sets, and lenient about fields it does not know: a newer writer may have added some.
"""

import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Any, NewType, TypeVar, Union

from nodeupgrade.api.durations import parse_duration, render_duration
from nodeupgrade.api.errors import NodeUpgradeError
from nodeupgrade.api.share import Share

Json = dict[str, Any]  # Any: the JSON of an API object has no narrower type before it is parsed
"""A JSON object as the API server returns it."""

T = TypeVar("T")

_ABBREVIATIONS = {"id": "ID", "uid": "UID", "url": "URL"}


class MalformedObjectError(NodeUpgradeError):
    """A field of an API object has a value of the wrong type, or none at all."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"cannot read {path or 'the object'} because {problem}")
        self.path = path
        self.problem = problem


@cache
def field_name(name: str) -> str:
    """Translate a Python field name to the API's: ``node_uid`` to ``nodeUID``."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(_ABBREVIATIONS.get(part, part.capitalize()) for part in tail)


def to_json(value: object) -> Any:
    """Write a dataclass, or anything one may hold, as JSON. ``None`` and nothing else is left out."""
    match value:
        case StrEnum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return timestamp(value)
        case timedelta():
            return render_duration(value)
        case Share():
            return value.render()
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case tuple() | list() | frozenset():
            return [to_json(item) for item in value]
        case _ if is_dataclass(value):
            pairs = ((field_name(f.name), getattr(value, f.name)) for f in fields(value))
            return {name: to_json(item) for name, item in pairs if item is not None}
        case _:
            raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def merge_patch(before: Json, after: Json) -> Json:
    """Return the RFC 7386 patch that makes exactly ``after`` of ``before``."""
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
    """Write a moment as RFC 3339 in UTC; fractions of a second only where there are some."""
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def from_json(kind: type[T], data: object, path: str = "") -> T:
    """Read a dataclass from JSON.

    Args:
        kind: The dataclass to build.
        data: A JSON object.
        path: Where the object was found, for messages.

    Raises:
        MalformedObjectError: A field is missing or has the wrong type.
    """
    if not isinstance(data, dict):
        raise MalformedObjectError(path, f"an object is expected and {data!r} was found")
    values: dict[str, object] = {}
    for attribute, name, read, required in _plan(typing.cast("Hashable", kind)):
        where = f"{path}.{name}" if path else name
        if (value := data.get(name)) is not None:
            values[attribute] = read(value, where)
        elif required:
            raise MalformedObjectError(where, "it is missing")
    return kind(**values)


Reader = Callable[[object, str], object]
"""Reads one value found at a path."""


@cache
def _plan(kind: Hashable) -> tuple[tuple[str, str, Reader, bool], ...]:
    """How a dataclass is read: by field its attribute, its name in JSON, its reader, and whether it must be there."""
    hints = typing.get_type_hints(typing.cast("type", kind))
    return tuple(
        (
            field.name,
            field_name(field.name),
            _reader(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(typing.cast("Any", kind))  # cast: the caller's contract, mypy cannot say so
    )


@cache
def _reader(hint: Any) -> Reader:
    """Choose once how values of a type are read; a fleet's objects are read by the thousand."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, NewType):
        return _reader(hint.__supertype__)
    if origin in {Union, types.UnionType}:
        return _reader(next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        return partial(_items, _reader(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_entries, _reader(arguments[1]))
    if hint in _TEXTS:
        return partial(_parsed, hint)
    if is_dataclass(hint):
        return partial(from_json, typing.cast("type[object]", hint))
    if issubclass(hint, StrEnum):
        return partial(_member, hint)
    if hint is datetime:
        return _moment
    if hint is float:
        return _number
    return partial(_expect, hint)


def _items(read: Reader, data: object, path: str) -> tuple[object, ...]:
    return tuple(read(item, f"{path}[{index}]") for index, item in enumerate(_expect(list, data, path)))


def _entries(read: Reader, data: object, path: str) -> dict[str, object]:
    return {str(key): read(item, f"{path}[{key}]") for key, item in _expect(dict, data, path).items()}


def _number(data: object, path: str) -> float:
    if isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _expect(float, data, path)


_TEXTS: dict[object, Callable[[object], object]] = {timedelta: parse_duration, Share: Share.parse}
"""Values that the API carries as text or as a number, and how they are read."""


def _parsed(hint: object, data: object, path: str) -> object:
    try:
        return _TEXTS[hint](data)
    except ValueError as error:
        raise MalformedObjectError(path, str(error)) from None


def _expect(kind: type[T], data: object, path: str) -> T:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise MalformedObjectError(path, f"a {kind.__name__} is expected and {data!r} was found")
    return data


def _member(kind: type[StrEnum], data: object, path: str) -> StrEnum:
    try:
        return kind(_expect(str, data, path))
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise MalformedObjectError(path, f"{data!r} is none of {known}") from None


def _moment(data: object, path: str) -> datetime:
    try:
        return datetime.fromisoformat(_expect(str, data, path))
    except ValueError:
        raise MalformedObjectError(path, f"{data!r} is not an RFC 3339 time") from None
