"""Finds forbidden changes between an object and its replacement: CEL's transition rules in Python."""

from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.schema.model import ArraySchema, MapSchema, ObjectSchema, Problem, Schema


def changes(schema: Schema, new: Any, old: Any, path: str) -> Iterator[Problem]:  # Any: JSON
    """Yield the forbidden changes between two values, comparing fields that both have, as the API server does.

    Both values must be filled, valid and ordered.
    """
    for transition in schema.transitions:
        if not transition.holds(new, old):
            yield Problem(path, transition.message)
    match schema:
        case ObjectSchema(properties=properties):
            for name, child in properties.items():
                if name in new and name in old:
                    yield from changes(child, new[name], old[name], f"{path}.{name}")
        case MapSchema(additional_properties=value):
            for key in new.keys() & old.keys():
                yield from changes(value, new[key], old[key], f"{path}[{key}]")
        case ArraySchema(items=item, list_type=ListType.MAP, list_map_key=key):
            before = {each[key]: each for each in old}
            for index, each in enumerate(new):
                if each[key] in before:
                    yield from changes(item, each, before[each[key]], f"{path}[{index}]")
        case _:
            pass
