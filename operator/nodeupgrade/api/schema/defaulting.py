"""Defaulting and pruning, as the API server does before validation."""

from copy import deepcopy
from typing import Any

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.field import ListType
from nodeupgrade.api.schema.model import ABSENT, ArraySchema, MapSchema, ObjectSchema, Schema


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that is not yet validated
    """Return the value with defaults filled in, and nulls and unknown fields removed.

    Values of the wrong type are left as they are, for validation to report.
    """
    match schema, value:
        case ObjectSchema(), dict():
            return _filled_object(schema, value)
        case MapSchema(additional_properties=inner), dict():
            return {key: filled(inner, item) for key, item in value.items() if item is not None}
        case ArraySchema(items=inner), list():
            return [filled(inner, item) for item in value]
        case _:
            return value


def _filled_object(schema: ObjectSchema, value: Json) -> Json:
    result: Json = {}
    for name, child in schema.properties.items():
        if value.get(name) is not None:
            result[name] = filled(child, value[name])
        elif child.default is not ABSENT:
            result[name] = filled(child, deepcopy(child.default))
    return result


def ordered(schema: Schema, value: Any) -> Any:
    """Return a filled and valid value with its sets sorted, since CEL's ``==`` ignores the order of sets, too."""
    match schema:
        case ObjectSchema(properties=properties):
            return {name: ordered(properties[name], item) for name, item in value.items()}
        case MapSchema(additional_properties=inner):
            return {key: ordered(inner, item) for key, item in value.items()}
        case ArraySchema(items=inner, list_type=list_type):
            items = [ordered(inner, item) for item in value]
            return sorted(items) if list_type is ListType.SET else items
        case _:
            return value


def without_defaults(schema: Schema, value: Any) -> Any:
    """Return a filled value without the fields that have their default value.

    So two objects with the same meaning are equal, even if one was stored before a field with a default existed.
    """
    match schema, value:
        case ObjectSchema(properties=properties), dict():
            explicit = {name: item for name, item in value.items() if not _is_default(properties[name], item)}
            return {name: without_defaults(properties[name], item) for name, item in explicit.items()}
        case ArraySchema(items=inner), list():
            return [without_defaults(inner, item) for item in value]
        case _:
            return value


def _is_default(schema: Schema, value: Any) -> bool:
    return schema.default is not ABSENT and bool(value == filled(schema, schema.default))
