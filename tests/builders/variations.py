"""Change a JSON value one field at a time, everywhere that its schema knows."""

import copy
from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.schema.derive import Schema, Type

Place = tuple[str | int, ...]
"""Names and indexes that lead to a value inside another."""


def at(value: Any, path: Place) -> Any:
    """What is at a path; nothing if there is no such place."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError):
            return None
    return value


def replaced(value: Any, path: Place, new: Any) -> Any:
    """A copy of a JSON value with another one at a path; ``None`` takes it away."""
    inner = whole = copy.deepcopy(value)
    for step in path[:-1]:
        inner = inner[step]
    if new is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return whole


def places(schema: Schema, value: Any, path: Place = ()) -> Iterator[tuple[Place, Schema, Any]]:
    """Everything inside a value, with its schema."""
    if path:
        yield path, schema, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inside:
        yield from places(schema.of(step), item, (*path, step))


def boundaries(schema: Schema, value: Any) -> Iterator[Any]:
    """Values next to, on and beyond every bound of a schema, and of every wrong type."""
    yield from ("", "x", "-1%", 0, -1, 1, 1.5, True, [], {}, [{}], ["x", "x"])
    match schema:
        case Schema(type=Type.STRING, enum=choices, min_length=shortest, max_length=longest):
            yield from choices
            yield from (choice.lower() for choice in choices)
            yield from ("a" * max(0, shortest - 1), "a" * shortest, "a" * (longest or 1), "a" * ((longest or 1) + 1))
            yield from (f"{value}\n", f" {value}", f"{value}é", "0s", "0h0m0s", "9" * 15 + "s", "1h30m", "v1.30.4-rc.0")
        case Schema(type=Type.INTEGER, minimum=least, maximum=most):
            yield from (bound for bound in ((least or 0) - 1, least, most, (most or 0) + 1) if bound is not None)
        case Schema(type=Type.INT_OR_STRING, maximum=int(most)):
            yield from (most, most + 1, "0%", "1%", "9%", "99%", "100%", "101%", "05%", "10", "10%%")
        case Schema(type=Type.ARRAY, max_items=int(most), list_type=list_type):
            yield value + value[:1]
            yield [*value, *([f"x{i}" for i in range(most)] if list_type is ListType.SET else value * most)]
        case Schema(type=Type.MAP, max_properties=int(most)):
            some = next(iter(value.values()))
            yield {f"linux-k{i}": some for i in range(most)}
            yield {f"linux-k{i}": some for i in range(most + 1)}
            yield {"-": some}
