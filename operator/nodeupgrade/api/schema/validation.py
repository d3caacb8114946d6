"""Checks a value against a schema, and says what is wrong in words: the path, the problem, what to write instead."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, assert_never

from nodeupgrade.api.schema.model import (
    Flag,
    ListOf,
    MapOf,
    Number,
    Portion,
    Problem,
    Record,
    Schema,
    Sort,
    Text,
    Whole,
)
from nodeupgrade.api.schema.openapi import PERCENT

_SHOWN = 60


def check(schema: Schema, value: Any, path: str) -> Iterator[Problem]:  # Any: JSON that nobody has checked yet
    """Find everything that is wrong with a filled value; its rules are asked once its shape is right, as CEL's are."""
    shape = tuple(_shape(schema, value, path))
    yield from shape
    if all(problem.warning for problem in shape):
        for rule in schema.rules:
            if not rule.holds(value):
                more = " (API servers from 1.25 on reject it)" if rule.advisory else ""
                yield Problem(path, f"{rule.message}{more}", warning=rule.advisory)
        for examination in schema.examinations:
            if found := examination.finds(value):
                yield Problem(path, found)


def _shape(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    match schema:
        case Record():
            yield from _record(schema, value, path)
        case MapOf():
            yield from _map(schema, value, path)
        case ListOf():
            yield from _list(schema, value, path)
        case Text():
            yield from _text(schema, value, path)
        case Whole() | Number() | Flag() | Portion():
            if not _is_fine_scalar(schema, value):
                yield _wrong(schema, value, path)
        case _:
            assert_never(schema)


def _is_fine_scalar(schema: Whole | Number | Flag | Portion, value: Any) -> bool:
    match schema:
        case Whole(least=least, most=most):
            return _is_whole(value) and (least is None or value >= least) and (most is None or value <= most)
        case Number():
            return isinstance(value, float) or _is_whole(value)
        case Flag():
            return isinstance(value, bool)
        case Portion(most=most):
            return 1 <= value <= most if _is_whole(value) else _matches(PERCENT, value)
        case _:
            assert_never(schema)


def _record(schema: Record, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(schema, value, path)
        return
    for name, child in schema.fields.items():
        if name in value:
            yield from check(child, value[name], f"{path}.{name}")
        elif name in schema.required:
            yield Problem(f"{path}.{name}", f"it is missing; write {_instead(child)}")


def _map(schema: MapOf, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(schema, value, path)
        return
    yield from _length(len(value), schema.least, schema.most, path)
    for key, item in value.items():
        yield from check(schema.value, item, f"{path}[{key}]")


def _list(schema: ListOf, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield _wrong(schema, value, path)
        return
    yield from _length(len(value), 0, schema.most, path)
    seen: list[Any] = []
    for index, item in enumerate(value):
        yield from check(schema.item, item, f"{path}[{index}]")
        identity = item.get(schema.key) if schema.sort is Sort.MAP and isinstance(item, dict) else item
        if schema.sort is not Sort.ATOMIC and identity in seen:
            where = f"{path}[{index}].{schema.key}" if schema.key else f"{path}[{index}]"
            yield Problem(where, f"{shown(identity)} is there twice; every one must be different")
        seen.append(identity)


def _length(actual: int, least: int, most: int, path: str) -> Iterator[Problem]:
    if actual < least:
        yield Problem(path, f"it is empty; write at least {least}, or leave it out")
    if actual > most:
        yield Problem(path, f"{actual} are too many; write at most {most}")


def _text(schema: Text, value: Any, path: str) -> Iterator[Problem]:
    if schema.longest is not None and isinstance(value, str) and len(value) > schema.longest:
        yield Problem(path, f"it has {len(value)} characters; write at most {schema.longest}")
    elif not _is_fine_text(schema, value):
        yield _wrong(schema, value, path)


def _is_fine_text(schema: Text, value: Any) -> bool:
    if not isinstance(value, str) or len(value) < schema.shortest or (schema.choices and value not in schema.choices):
        return False
    return (not schema.pattern or _matches(schema.pattern, value)) and (not schema.moment or _is_moment(value))


def _is_moment(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _matches(pattern: str, value: Any) -> bool:
    return isinstance(value, str) and _compiled(pattern).fullmatch(value) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # ASCII: RE2, which the API server uses, means nothing else by \s.
    return re.compile(pattern, re.ASCII)


def _wrong(schema: Schema, value: Any, path: str) -> Problem:
    return Problem(path, f"{shown(value)} is not possible; write {_instead(schema)}")


def shown(value: Any) -> str:
    """Quote a value in a message, as people would write it in YAML, cut short."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str() if len(value) > _SHOWN:
            return repr(f"{value[:_SHOWN]}…")
        case _:
            return repr(value)


def _instead(schema: Schema) -> str:
    if schema.write:
        return schema.write
    match schema:
        case Text(choices=(*choices,)) if choices:
            return f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0]
        case Text(longest=longest):
            return "a text" if longest is None else f"a text of at most {longest} characters"
        case Whole(least=least, most=most):
            limits = ("" if least is None else f" from {least}") + ("" if most is None else f" to {most}")
            return f"a whole number{limits}"
        case Number():
            return "a number"
        case Flag():
            return "true or false"
        case Record(fields=fields):
            return f"an object with {', '.join(fields)}"
        case MapOf():
            return "an object"
        case ListOf():
            return "a list"
        case Portion(most=most):
            return f"a number from 1 to {most} or a percentage from 1% to 100%"
        case _:
            assert_never(schema)
