"""Derives the schema of an API object from its dataclass."""

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from dataclasses import Field as DataclassField
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, NewType, TypeAlias, Union, get_args, get_origin

from nodeupgrade.api.field import LASTING, Check, Field, ListType, Mark, Rule, TransitionRule, marks_of, together
from nodeupgrade.api.json import field_name, seconds_name, to_json
from nodeupgrade.api.values import IntOrPercent

MOST_NODES = 100_000
"""More nodes than any cluster has."""

_DURATION = r"([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?"


@dataclass(frozen=True, slots=True)
class _Declared:
    """A type without its annotations, and the field that these declare together."""

    kind: Any
    field: Field


# The schema model: OpenAPI's types with their bounds, and rules between values.
#
# Schemas are derived from the dataclasses that carry the values (``derive``), never written by hand.

ABSENT: Final = object()
"""Marks a schema without a default, as opposed to a default of null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnySchema:
    """The attributes that all schemas have."""

    description: str = ""  # for people who read the manifest or ask ``kubectl explain``
    expected: str = ""  # what to write instead of an invalid value; derived from the bounds if empty
    # filled in by the API server, and by us for objects that did not pass through an API server
    default: object = ABSENT
    rules: tuple[Rule, ...] = ()
    transitions: tuple[TransitionRule, ...] = ()
    checks: tuple[Check, ...] = ()
    mutable: bool = False  # whether it may be changed after the rollout was accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSchema(AnySchema):
    """An object with declared properties."""

    properties: "Mapping[str, Schema]"
    required: tuple[str, ...] = ()


@cache
def schema_of(kind: type, *, by_people: bool = False) -> ObjectSchema:
    """Derive the schema of a dataclass; in what is written by people, all defaults are filled in."""
    declared = _declared(kind)
    schema = _object(declared, by_people)
    return replace(schema, default=declared.field.default) if declared.field.default is not None else schema


def _declared(hint: Any) -> _Declared:
    kind, marks = _annotations(hint)
    return _Declared(kind, together(marks))


def _annotations(hint: Any) -> tuple[Any, tuple[Mark, ...]]:
    if isinstance(hint, NewType):
        return _annotations(hint.__supertype__)
    if get_origin(hint) is Annotated:
        kind, marks = _annotations(hint.__origin__)
        return kind, (*marks, *hint.__metadata__)
    if get_origin(hint) in {Union, types.UnionType}:
        return _annotations(next(argument for argument in get_args(hint) if argument is not type(None)))
    return hint, marks_of(hint) if isinstance(hint, type) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySchema(AnySchema):
    """A list. With ``ListType.MAP``, the property ``list_map_key`` identifies an item."""

    items: "Schema"
    max_items: int
    list_type: ListType = ListType.ATOMIC
    list_map_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanSchema(AnySchema):
    """A boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntOrStringSchema(AnySchema):
    """A number of nodes from 1, or a percentage from 1% to 100%."""

    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerSchema(AnySchema):
    """An integer."""

    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSchema(AnySchema):
    """A map with arbitrary keys."""

    additional_properties: "Schema"
    max_properties: int
    min_properties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSchema(AnySchema):
    """A number, possibly with a fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringSchema(AnySchema):
    """A string. ``pattern`` must match all of it. The only ``format`` is ``date-time`` (RFC 3339)."""

    min_length: int = 0
    max_length: int | None = None
    pattern: str = ""
    enum: tuple[str, ...] = ()
    format: str = ""


Schema: TypeAlias = (
    StringSchema
    | IntegerSchema
    | NumberSchema
    | BooleanSchema
    | IntOrStringSchema
    | ObjectSchema
    | MapSchema
    | ArraySchema
)


def _schema(declared: _Declared, by_people: bool) -> Schema:
    kind, field, origin = declared.kind, declared.field, get_origin(declared.kind)
    common = {
        name: getattr(field, name) for name in ("description", "expected", "rules", "transitions", "checks", "mutable")
    }
    if origin is tuple:
        return _array(declared, common, by_people)
    if origin is not None and issubclass(origin, Mapping):
        inner = _schema(_declared(get_args(kind)[1]), by_people)
        most = _bound(declared, field.max_properties)
        return MapSchema(
            additional_properties=inner, min_properties=field.min_properties, max_properties=most, **common
        )
    if kind is IntOrPercent:
        return _int_or_string(field, common)
    if is_dataclass(kind):
        return _object(declared, by_people)
    if kind is timedelta:
        return _duration(field, common)
    if kind is datetime:
        return StringSchema(format="date-time", max_length=field.max_length, pattern=field.pattern, **common)
    if kind is int:
        return IntegerSchema(minimum=field.minimum, maximum=field.maximum, **common)
    if kind is float:
        return NumberSchema(**common)
    if kind is bool:
        return BooleanSchema(**common)
    return _string(declared, common)


def _string(declared: _Declared, common: dict[str, Any]) -> StringSchema:
    kind, field = declared.kind, declared.field
    members = tuple(member.value for member in kind) if issubclass(kind, StrEnum) and not field.open else ()
    return StringSchema(
        min_length=field.min_length,
        max_length=field.max_length,
        pattern=field.pattern,
        enum=field.enum or members,
        **common,
    )


def _duration(field: Field, common: dict[str, Any]) -> StringSchema:
    rules = (*common.pop("rules"), *((LASTING,) if field.positive else ()))
    expected = common.pop("expected") or "a duration such as 90s, 15m or 1h30m"
    return StringSchema(min_length=2, max_length=16, pattern=_DURATION, expected=expected, rules=rules, **common)


def _int_or_string(field: Field, common: dict[str, Any]) -> IntOrStringSchema:
    limit = "" if field.maximum is None else f" to {field.maximum}"
    expected = common.pop("expected") or f"a number from 1{limit} or a percentage from 1% to 100%"
    return IntOrStringSchema(
        maximum=MOST_NODES if field.maximum is None else field.maximum, expected=expected, **common
    )


def _array(declared: _Declared, common: dict[str, Any], by_people: bool) -> ArraySchema:
    field = declared.field
    return ArraySchema(
        items=_schema(_declared(get_args(declared.kind)[0]), by_people),
        max_items=_bound(declared, field.max_items),
        list_type=ListType.MAP if field.list_map_key else field.list_type,
        list_map_key=field.list_map_key,
        **common,
    )


def _bound(declared: _Declared, most: int | None) -> int:
    if most is None:
        raise TypeError(f"{declared.kind} needs max_items or max_properties")
    return most


def _object(declared: _Declared, by_people: bool) -> ObjectSchema:
    kind, field = declared.kind, declared.field
    hints = typing.get_type_hints(kind, include_extras=True)
    properties, required = {}, []
    for each in fields(kind):
        inside = _declared(hints[each.name])
        schema = _schema(inside, by_people)
        name = field_name(each.name)
        if each.default is MISSING and each.default_factory is MISSING:
            required.append(name)
        elif inside.field.defaulted or (by_people and inside.field.defaulted is None and each.default is not None):
            schema = replace(schema, default=_default(each, schema, inside.field))
        if inside.field.resolved and isinstance(schema, ObjectSchema):
            schema = _resolved(schema)
        properties[name] = schema
    return ObjectSchema(
        description=field.description,
        expected=field.expected,
        rules=field.rules,
        transitions=field.transitions,
        checks=field.checks,
        mutable=field.mutable,
        properties={name: properties[name] for name in dict.fromkeys((*field.first, *properties))},
        required=tuple(required),
    )


def _default(each: "DataclassField[Any]", schema: Schema, declared: Field) -> object:
    if declared.default is not None:
        return declared.default
    if isinstance(schema, ObjectSchema) and not schema.rules:
        return {}  # the API server fills in nested defaults, but evaluates the rules of a default before it does
    return to_json(each.default if each.default_factory is MISSING else each.default_factory())


def _resolved(schema: ObjectSchema) -> ObjectSchema:
    """Reduce a schema to types and sizes."""
    return ObjectSchema(properties=dict(_checked_already(name, child) for name, child in schema.properties.items()))


def _checked_already(name: str, schema: Schema) -> tuple[str, Schema]:
    match schema:
        case StringSchema(pattern=pattern, rules=rules) if pattern == _DURATION:
            return seconds_name(name), IntegerSchema(minimum=1 if LASTING in rules else 0)
        case StringSchema(max_length=max_length, enum=enum):
            return name, StringSchema(max_length=max_length, enum=enum)
        case IntegerSchema(minimum=minimum, maximum=maximum):
            return name, IntegerSchema(minimum=minimum, maximum=maximum)
        case BooleanSchema():
            return name, BooleanSchema()
        case ArraySchema(items=items, max_items=max_items):
            return name, ArraySchema(items=_checked_already("", items)[1], max_items=max_items)
        case _:
            raise TypeError(f"{name}: a {type(schema).__name__} cannot be handed on")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with an object."""

    path: str  # the field, for example ``spec.waves[1].size``
    message: str  # what is wrong with it and what to do, for people
    warning: bool = False  # whether the object is usable nevertheless

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
