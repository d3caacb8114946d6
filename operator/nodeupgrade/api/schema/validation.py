"""Validates a value against a schema. Each problem has the path, the error, and what to write instead."""

import re
from collections.abc import Hashable, Iterator
from typing import Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.cel_rules import holds
from nodeupgrade.api.schema.derive import Problem, Schema, Type
from nodeupgrade.text import parse_time

_SHOWN = 60


def validate(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that is not yet validated
    """Yield all problems of a filled value. As on an API server, rules are evaluated only if the shape is valid."""
    shape = tuple(_shape(schema, value, path))
    yield from shape
    if all(problem.warning for problem in shape):
        for rule in schema.rules:
            if not rule.transition and not holds(rule.cel, schema, value):
                more = " (API servers from 1.25 on reject it)" if rule.advisory else ""
                yield Problem(path, f"{rule.message}{more}", warning=rule.advisory)
        for validator in schema.validators:
            if message := validator(value):
                yield Problem(path, message)


def _shape(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    match schema.type, value:
        case Type.OBJECT, dict():
            yield from _object(schema, value, path)
        case Type.MAP, dict():
            yield from _length(len(value), schema.min_properties, schema.max_properties, path)
            for key, item in value.items():
                yield from validate(schema.of(key), item, f"{path}[{key}]")
        case Type.ARRAY, list():
            yield from _array(schema, value, path)
        case Type.STRING, str() if schema.max_length is not None and len(value) > schema.max_length:
            yield Problem(path, f"{len(value)} characters are too many; write at most {schema.max_length}")
        case _ if not _is_fine_scalar(schema, value):
            yield Problem(path, f"{shown(value)} is invalid; write {_expected(schema)}")


def _is_fine_scalar(schema: Schema, value: Any) -> bool:
    match schema.type:
        case Type.STRING:
            return isinstance(value, str) and _is_fine_string(schema, value)
        case Type.INT_OR_STRING if isinstance(value, str):
            return _matches(schema.pattern, value)
        case Type.INTEGER | Type.INT_OR_STRING:
            least, most = schema.minimum, schema.maximum
            return _is_integer(value) and (least is None or value >= least) and (most is None or value <= most)
        case Type.NUMBER:
            return isinstance(value, float) or _is_integer(value)
        case Type.BOOLEAN:
            return isinstance(value, bool)
        case _:
            return False


def _object(schema: Schema, value: Json, path: str) -> Iterator[Problem]:
    for name, child in schema.properties.items():
        if name in value:
            yield from validate(child, value[name], f"{path}.{name}")
        elif name in schema.required:
            yield Problem(f"{path}.{name}", f"required field is missing; write {_expected(child)}")


def _array(schema: Schema, value: list[Any], path: str) -> Iterator[Problem]:
    yield from _length(len(value), 0, schema.max_items, path)
    seen, others = set[Any](), list[Any]()  # others: what only a wrong type can be
    for index, item in enumerate(value):
        yield from validate(schema.of(index), item, f"{path}[{index}]")
        keyed = schema.list_type is ListType.MAP and isinstance(item, dict)
        identity = item.get(schema.list_map_key) if keyed else item
        if schema.list_type is ListType.ATOMIC:
            continue
        known = seen if isinstance(identity, Hashable) else others
        if identity in known:
            where = f"{path}[{index}].{schema.list_map_key}" if schema.list_map_key else f"{path}[{index}]"
            yield Problem(where, f"{shown(identity)} occurs twice; each must be unique")
        seen.add(identity) if known is seen else others.append(identity)


def _length(actual: int, least: int, most: int | None, path: str) -> Iterator[Problem]:
    if actual < least:
        yield Problem(path, f"must not be empty; write at least {least}, or leave the field out")
    if most is not None and actual > most:
        yield Problem(path, f"{actual} entries are too many; write at most {most}")


def _is_fine_string(schema: Schema, value: str) -> bool:
    if len(value) < schema.min_length or (schema.enum and value not in schema.enum):
        return False
    return (not schema.pattern or _matches(schema.pattern, value)) and (not schema.format or _is_time(value))


def _is_time(value: str) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, value: str) -> bool:
    # ASCII: in RE2, which the API server uses, \s matches only ASCII.
    return re.fullmatch(pattern, value, re.ASCII) is not None


def shown(value: Any) -> str:
    """Format a value for a message, as people would write it in YAML; long text is truncated."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str() if len(value) > _SHOWN:
            return repr(f"{value[:_SHOWN]}…")
        case _:
            return repr(value)


def _expected(schema: Schema) -> str:
    least, most = schema.minimum, schema.maximum
    match schema.type:
        case _ if schema.expected:
            return schema.expected
        case Type.STRING if schema.enum:
            *others, last = schema.enum
            return f"{', '.join(others)} or {last}" if others else last
        case Type.STRING:
            return "a string" if schema.max_length is None else f"a string of at most {schema.max_length} characters"
        case Type.INTEGER:
            limits = ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
            return f"an integer{limits}"
        case Type.OBJECT:
            return f"an object with {', '.join(schema.properties)}"
        case _:
            return _EXPECTED[schema.type]


_EXPECTED = {Type.NUMBER: "a number", Type.BOOLEAN: "true or false", Type.MAP: "an object", Type.ARRAY: "a list"}
