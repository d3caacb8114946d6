"""Evaluates transition rules, which compare an object with the one that it replaces."""

from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.schema.cel_rules import holds
from nodeupgrade.api.schema.derive import Problem, Schema, Type


def changes(schema: Schema, new: Any, old: Any, path: str) -> Iterator[Problem]:  # Any: JSON
    """Yield the forbidden changes between two filled, valid and ordered values.

    Only fields that both have are compared, as the API server does.
    """
    for rule in schema.rules:
        if rule.transition and not holds(rule.cel, schema, new, old):
            yield Problem(path, rule.message)
    match schema.type:
        case Type.OBJECT:
            for name, child in schema.properties.items():
                if name in new and name in old:
                    yield from changes(child, new[name], old[name], f"{path}.{name}")
        case Type.MAP:
            for key in new.keys() & old.keys():
                yield from changes(schema.of(key), new[key], old[key], f"{path}[{key}]")
        case Type.ARRAY if key := schema.list_map_key:
            before = {each[key]: each for each in old}
            for index, each in enumerate(new):
                if each[key] in before:
                    yield from changes(schema.of(index), each, before[each[key]], f"{path}[{index}]")
