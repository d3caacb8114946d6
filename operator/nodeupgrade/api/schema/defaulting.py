"""What an API server makes of an object before it checks it: defaults in, what nobody knows out."""

from copy import deepcopy
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.model import ABSENT, ListOf, MapOf, Record, Schema, Sort


def filled(schema: Schema, value: Any) -> Any:  # Any: JSON that nobody has checked yet
    """Fill in defaults, drop nulls and unknown fields.

    What has the wrong type is left as it is, for the check that follows.
    """
    match schema, value:
        case Record(), dict():
            return _filled_record(schema, value)
        case MapOf(value=inner), dict():
            return {key: filled(inner, item) for key, item in value.items() if item is not None}
        case ListOf(item=inner), list():
            return [filled(inner, item) for item in value]
        case _:
            return value


def _filled_record(schema: Record, value: Json) -> Json:
    told: Json = {}
    for name, child in schema.fields.items():
        if value.get(name) is not None:
            told[name] = filled(child, value[name])
        elif child.default is not ABSENT:
            told[name] = filled(child, deepcopy(child.default))
    return told


def ordered(schema: Schema, value: Any) -> Any:
    """Bring sets, in a filled value that was found right, into one order: CEL's ``==`` does not see theirs either."""
    match schema:
        case Record(fields=fields):
            return {name: ordered(fields[name], item) for name, item in value.items()}
        case MapOf(value=inner):
            return {key: ordered(inner, item) for key, item in value.items()}
        case ListOf(item=inner, sort=sort):
            items = [ordered(inner, item) for item in value]
            return sorted(items) if sort is Sort.SET else items
        case _:
            return value


def without_defaults(schema: Schema, value: Any) -> Any:
    """Take away, from a filled value, whatever is there by default.

    So two objects that mean the same are the same, also if one was stored before a field with a default existed.
    """
    match schema, value:
        case Record(fields=fields), dict():
            said = {name: item for name, item in value.items() if not _is_default(fields[name], item)}
            return {name: without_defaults(fields[name], item) for name, item in said.items()}
        case ListOf(item=inner), list():
            return [without_defaults(inner, item) for item in value]
        case _:
            return value


def _is_default(schema: Schema, value: Any) -> bool:
    return schema.default is not ABSENT and bool(value == filled(schema, schema.default))
