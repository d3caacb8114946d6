"""What an API server makes of an object before it checks it: defaults in, what nobody knows out."""

from copy import deepcopy
from typing import Any

from nodeupgrade.api.field import ListType
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.model import ABSENT, ArraySchema, MapSchema, ObjectSchema, Schema


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that nobody has checked yet
    """Fill in defaults, drop nulls and unknown fields.

    What has the wrong type is left as it is, for the check that follows.
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
    told: Json = {}
    for name, child in schema.properties.items():
        if value.get(name) is not None:
            told[name] = filled(child, value[name])
        elif child.default is not ABSENT:
            told[name] = filled(child, deepcopy(child.default))
    return told


def ordered(schema: Schema, value: Any) -> Any:
    """Bring sets, in a filled value that was found right, into one order: CEL's ``==`` does not see theirs either."""
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
    """Take away, from a filled value, whatever is there by default.

    So two objects that mean the same are the same, also if one was stored before a field with a default existed.
    """
    match schema, value:
        case ObjectSchema(properties=properties), dict():
            said = {name: item for name, item in value.items() if not _is_default(properties[name], item)}
            return {name: without_defaults(properties[name], item) for name, item in said.items()}
        case ArraySchema(items=inner), list():
            return [without_defaults(inner, item) for item in value]
        case _:
            return value


def _is_default(schema: Schema, value: Any) -> bool:
    return schema.default is not ABSENT and bool(value == filled(schema, schema.default))
