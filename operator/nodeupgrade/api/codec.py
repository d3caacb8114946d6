"""Values to JSON and back, strictly, with the standard library only.

A journal must be readable in an emergency with a pager, and no library's next version may strand an old one.
So plans and records are encoded by these few rules: dataclasses become objects, tuples become arrays, bytes
become base64 text. Decoding refuses what it does not know by name.
"""

import base64
import binascii
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

T = TypeVar("T")


class CodecError(ValueError):
    """A document does not have the shape its type promises; the message names the path."""


def encode(value: object) -> Json:
    """Turn a value into JSON types.

    Raises:
        TypeError: the value holds something no rule covers.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case tuple() | list():
            return [encode(item) for item in value]
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {f.name: encode(getattr(value, f.name)) for f in fields(value)}
        case _:
            raise TypeError(f"cannot encode {type(value).__name__}")


def encode_object(value: object) -> dict[str, Json]:
    """Encode a value that becomes a JSON object.

    Raises:
        TypeError: the value becomes something else.
    """
    document = encode(value)
    if not isinstance(document, dict):
        raise TypeError(f"{type(value).__name__} is not encoded as an object")
    return document


def decode(kind: type[T], document: object, path: str = "$") -> T:
    """Turn JSON types back into a value of ``kind``.

    Raises:
        CodecError: the document has another shape; nothing is guessed or dropped.
    """
    return typing.cast("T", _decode(kind, document, path))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, document: object, path: str) -> object:
    kind = getattr(kind, "__supertype__", kind)
    origin = get_origin(kind)
    if kind is Json or kind is object or kind is Any:
        return document
    if origin in {Union, types.UnionType}:
        return _decode_optional(kind, document, path)
    if origin is tuple:
        if not isinstance(document, list):
            raise CodecError(f"{path}: expected an array, found {type(document).__name__}")
        item = get_args(kind)[0]
        return tuple(_decode(item, element, f"{path}[{i}]") for i, element in enumerate(document))
    if origin in {dict, Mapping}:
        if not isinstance(document, dict):
            raise CodecError(f"{path}: expected an object, found {type(document).__name__}")
        item = get_args(kind)[1]
        return {str(key): _decode(item, element, f"{path}.{key}") for key, element in document.items()}
    if is_dataclass(kind):
        return _decode_dataclass(typing.cast("type", kind), document, path)
    return _decode_scalar(kind, document, path)


def _decode_optional(kind: Any, document: object, path: str) -> object:
    members = [member for member in get_args(kind) if member is not type(None)]
    if document is None:
        return None
    if len(members) != 1:
        return document
    return _decode(members[0], document, path)


def _decode_dataclass(kind: type, document: object, path: str) -> object:
    if not isinstance(document, dict):
        raise CodecError(f"{path}: expected an object for {kind.__name__}, found {type(document).__name__}")
    hints = _hints(kind)
    unknown = document.keys() - hints.keys()
    if unknown:
        raise CodecError(f"{path}: unknown field {min(unknown)!r} for {kind.__name__}")
    values = {name: _decode(hints[name], item, f"{path}.{name}") for name, item in document.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise CodecError(f"{path}: {error}") from error


def _decode_scalar(kind: Any, document: object, path: str) -> object:
    if kind is bytes and isinstance(document, str):
        try:
            return base64.b64decode(document, validate=True)
        except binascii.Error as error:
            raise CodecError(f"{path}: not base64") from error
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(document, str):
        try:
            return kind(document)
        except ValueError as error:
            raise CodecError(f"{path}: unknown {kind.__name__} {document!r}") from error
    if kind is float and isinstance(document, int) and not isinstance(document, bool):
        return float(document)
    if type(document) is not kind:
        raise CodecError(f"{path}: expected {kind.__name__}, found {type(document).__name__}")
    return document
