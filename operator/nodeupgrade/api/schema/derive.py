"""The schema of an API object: OpenAPI's types, derived from its dataclass and never written by hand."""

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from dataclasses import Field as DataclassField
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, NewType, Union, get_args, get_origin

from nodeupgrade.api.field import POSITIVE_DURATION, Annotation, Field, ListType, annotations_of, combined, immutable
from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.json import field_name, seconds_name, to_json
from nodeupgrade.text import one_line

MOST_NODES = 100_000  # more than any cluster has
DURATION = r"([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"
_PERCENT = r"(100|[1-9][0-9]?)%"


class Type(StrEnum):
    """The type of a value; in OpenAPI, a map is an object, and INT_OR_STRING has no type."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    OBJECT = "object"
    MAP = "map"
    ARRAY = "array"


_SCALARS = {int: Type.INTEGER, float: Type.NUMBER, bool: Type.BOOLEAN, IntOrPercent: Type.INT_OR_STRING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema(Field):
    """A field's declaration, with its type and the schemas of what it contains."""

    type: Type
    format: str = ""  # date-time (RFC 3339) or empty
    properties: "Mapping[str, Schema]" = field(default_factory=dict)  # of an object
    required: tuple[str, ...] = ()
    items: "Schema | None" = None  # of a list or map

    def of(self, name: object) -> "Schema":
        """Return the schema of a property, of a map's value or of a list's item."""
        return self.properties[str(name)] if self.items is None else self.items


@dataclass(frozen=True, slots=True)
class Problem:
    """A validation error or warning."""

    path: str  # the field, for example ``spec.waves[1].size``
    message: str  # what is wrong with it and what to do, for people
    warning: bool = False  # whether the object is usable nevertheless

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@cache
def schema_of(kind: type, *, by_people: bool = False) -> Schema:
    """Derive the schema of a dataclass; ``by_people`` fills in all defaults, since people leave fields out."""
    return _schema(kind, by_people)


def frozen(schema: Schema, key: str = "") -> Schema:
    """Return the schema with rules that make immutable what is not mutable; the key of a list's items needs none."""
    if schema.mutable:
        return schema
    if not _may_change(schema):
        return replace(schema, rules=(*schema.rules, immutable()))
    properties = {name: child if name == key else frozen(child) for name, child in schema.properties.items()}
    return replace(schema, properties=properties, items=schema.items and frozen(schema.items, schema.list_map_key))


def _may_change(schema: Schema) -> bool:
    inside = (*schema.properties.values(), *((schema.items,) if schema.items else ()))
    return schema.mutable or any(map(_may_change, inside))


def _schema(hint: Any, by_people: bool) -> Schema:
    """Return the schema of a type with its annotations."""
    kind, marks = _annotations(hint)
    declared, origin = combined(marks), get_origin(kind)
    if origin is tuple:
        listed = ListType.MAP if declared.list_map_key else declared.list_type
        return _made(declared, Type.ARRAY, items=_schema(get_args(kind)[0], by_people), list_type=listed)
    if origin is not None and issubclass(origin, Mapping):
        return _made(declared, Type.MAP, items=_schema(get_args(kind)[1], by_people))
    if kind is IntOrPercent:
        return _int_or_string(declared)
    if is_dataclass(kind):
        return _object(typing.cast("type", kind), declared, by_people)
    if kind is timedelta:
        rules = (*declared.rules, POSITIVE_DURATION) if declared.positive else declared.rules
        expected = declared.expected or "a duration such as 90s, 15m or 1h30m"
        bounds = {"min_length": 2, "max_length": 16, "pattern": DURATION}
        return _made(declared, Type.STRING, expected=expected, rules=rules, **bounds)
    if kind is datetime:
        return _made(declared, Type.STRING, format="date-time")
    if issubclass(kind, StrEnum) and not declared.open:
        return _made(declared, Type.STRING, enum=declared.enum or tuple(member.value for member in kind))
    return _made(declared, _SCALARS.get(kind, Type.STRING))


def _made(declared: Field, kind: Type, **more: Any) -> Schema:
    """Return a schema with the declared properties; ``_object`` decides about the default."""
    schema = Schema(**{each.name: getattr(declared, each.name) for each in fields(declared)} | more, type=kind)
    if {Type.ARRAY: schema.max_items, Type.MAP: schema.max_properties}.get(kind, 0) is None:
        raise TypeError(f"a list needs max_items, and a map max_properties: {schema.description}")
    return schema


def _annotations(hint: Any) -> tuple[Any, tuple[Annotation, ...]]:
    """Split a type from its annotations."""
    if isinstance(hint, NewType):
        return _annotations(hint.__supertype__)
    if get_origin(hint) is Annotated:
        kind, marks = _annotations(hint.__origin__)
        return kind, (*marks, *hint.__metadata__)
    if get_origin(hint) in {Union, types.UnionType}:
        return _annotations(next(argument for argument in get_args(hint) if argument is not type(None)))
    return hint, annotations_of(hint) if isinstance(hint, type) else ()


def _int_or_string(declared: Field) -> Schema:
    limit = "" if declared.maximum is None else f" to {declared.maximum}"
    return _made(
        declared,
        Type.INT_OR_STRING,
        minimum=1,
        maximum=MOST_NODES if declared.maximum is None else declared.maximum,
        max_length=4,
        pattern=_PERCENT,
        expected=declared.expected or f"a number from 1{limit} or a percentage from 1% to 100%",
    )


def _object(kind: type, declared: Field, by_people: bool) -> Schema:
    hints = typing.get_type_hints(kind, include_extras=True)
    properties, required = {}, []
    for each in fields(typing.cast("Any", kind)):
        schema, name = _schema(hints[each.name], by_people), field_name(each.name)
        optional = each.default is not MISSING or each.default_factory is not MISSING
        if not optional:
            required.append(name)
        by_default = by_people and schema.defaulted is None and each.default is not None
        filled = optional and (schema.defaulted or by_default)
        schema = replace(schema, default=_default(each, schema) if filled else None)
        properties[name] = _resolved(schema) if schema.resolved and schema.type is Type.OBJECT else schema
    described = declared.description or one_line(str(kind.__doc__))
    return _made(declared, Type.OBJECT, description=described, properties=properties, required=tuple(required))


def _default(each: "DataclassField[Any]", schema: Schema) -> object:
    if schema.default is not None:
        return schema.default
    if schema.type is Type.OBJECT and all(rule.transition for rule in schema.rules):
        return {}  # the API server fills in nested defaults, but evaluates the rules of a default before it does
    return to_json(each.default if each.default_factory is MISSING else each.default_factory())


def _resolved(schema: Schema) -> Schema:
    """Reduce a schema to types, sizes and descriptions."""
    children = (_checked_already(name, child) for name, child in schema.properties.items())
    return Schema(type=Type.OBJECT, description=schema.description, properties=dict(children))


def _checked_already(name: str, schema: Schema) -> tuple[str, Schema]:
    match schema:
        case Schema(type=Type.STRING, pattern=pattern, rules=rules) if pattern == DURATION:
            least = 1 if POSITIVE_DURATION in rules else 0
            described = schema.description and f"{schema.description} In seconds."
            return seconds_name(name), Schema(type=Type.INTEGER, description=described, minimum=least)
        case Schema(type=Type.STRING | Type.INTEGER | Type.BOOLEAN as kind, minimum=least, maximum=most):
            kept = Schema(type=kind, description=schema.description, minimum=least, maximum=most)
            return name, replace(kept, max_length=schema.max_length, enum=schema.enum)
        case Schema(type=Type.ARRAY, items=Schema() as items, max_items=most):
            inner = _checked_already("", items)[1]
            return name, Schema(type=Type.ARRAY, description=schema.description, items=inner, max_items=most)
        case _:
            raise TypeError(f"{name}: a {schema.type} cannot be handed on")
