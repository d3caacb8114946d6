"""Encodes frozen dataclasses as JSON and decodes them, for API objects and for files on a node.

In API objects, names are camelCase with Kubernetes' abbreviations (``run_id`` is ``runID``), ``None`` is omitted, and
unknown fields are ignored, since a newer writer may have added them.

Files on a node are ``strict``: names are Python's, every field is written, and unknown fields are rejected, since the
same program wrote the file. They must be readable in an emergency with a pager. Bytes are base64.
"""

import base64
import typing
from collections.abc import Hashable, Mapping
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from nodeupgrade.api.durations import render_duration
from nodeupgrade.api.encoding.json_readers import (
    MalformedFileError,
    MalformedObjectError,
    field_name,
    members_of,
    reader_of,
    seconds_name,
)
from nodeupgrade.api.int_or_percent import IntOrPercent

__all__ = [
    "Json", "JsonValue", "MalformedFileError", "MalformedObjectError", "field_name", "from_json", "merge_patch",
    "seconds_name", "timestamp", "to_json",
]  # fmt: skip

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
    return typing.cast("T", read(data, path or ("$" if strict else "")))
