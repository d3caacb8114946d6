"""Defaulting and pruning, as the API server does before validation."""

from collections.abc import Callable
from typing import Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.schema.derive import Schema, Type


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that is not yet validated
    """Return the value with defaults filled in, and nulls and unknown fields removed.

    Values of the wrong type are left as they are, for validation to report.
    """
    match schema.type, value:
        case Type.OBJECT, dict():
            given = {name: value.get(name) for name in schema.properties}
            known = {name: schema.of(name).default if item is None else item for name, item in given.items()}
            return rebuilt(schema, {name: item for name, item in known.items() if item is not None}, filled)
        case Type.MAP, dict():
            return rebuilt(schema, {key: item for key, item in value.items() if item is not None}, filled)
        case _:
            return rebuilt(schema, value, filled)


def rebuilt(schema: Schema, value: Any, change: Callable[[Schema, Any], Any]) -> Any:
    """Return a copy of a value whose items and properties are changed, each by its schema."""
    match schema.type, value:
        case ((Type.OBJECT | Type.MAP), dict()):
            return {name: change(schema.of(name), item) for name, item in value.items()}
        case Type.ARRAY, list():
            return [change(schema.of(index), item) for index, item in enumerate(value)]
        case _:
            return value


def ordered(schema: Schema, value: Any) -> Any:
    """Sort the sets in a filled and valid value, since CEL's ``==`` ignores the order of sets, too."""
    result = rebuilt(schema, value, ordered)
    return sorted(result) if schema.type is Type.ARRAY and schema.list_type is ListType.SET else result
