"""The schema model: OpenAPI's types with their bounds, and rules between values.

Schemas are derived from the dataclasses that carry the values (``derive``), never written by hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from nodeupgrade.api.field import Check, ListType, Rule, TransitionRule

ABSENT: Final = object()
"""Marks a schema without a default, as opposed to a default of null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnySchema:
    """The attributes that all schemas have.

    Attributes:
        description: for people who read the manifest or ask ``kubectl explain``.
        expected: what to write instead of an invalid value; derived from the bounds if empty.
        default: filled in by the API server, and by us for objects that did not pass through an API server.
        mutable: whether it may be changed after the rollout was accepted.
    """

    description: str = ""
    expected: str = ""
    default: object = ABSENT
    rules: tuple[Rule, ...] = ()
    transitions: tuple[TransitionRule, ...] = ()
    checks: tuple[Check, ...] = ()
    mutable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StringSchema(AnySchema):
    """A string. ``pattern`` must match all of it. The only ``format`` is ``date-time`` (RFC 3339)."""

    min_length: int = 0
    max_length: int | None = None
    pattern: str = ""
    enum: tuple[str, ...] = ()
    format: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerSchema(AnySchema):
    """An integer."""

    minimum: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSchema(AnySchema):
    """A number, possibly with a fraction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BooleanSchema(AnySchema):
    """A boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntOrStringSchema(AnySchema):
    """A number of nodes from 1, or a percentage from 1% to 100%."""

    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSchema(AnySchema):
    """An object with declared properties."""

    properties: "Mapping[str, Schema]"
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSchema(AnySchema):
    """A map with arbitrary keys."""

    additional_properties: "Schema"
    max_properties: int
    min_properties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraySchema(AnySchema):
    """A list. With ``ListType.MAP``, the property ``list_map_key`` identifies an item."""

    items: "Schema"
    max_items: int
    list_type: ListType = ListType.ATOMIC
    list_map_key: str = ""


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


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with an object.

    Attributes:
        path: the field, for example ``spec.waves[1].size``.
        message: what is wrong with it and what to do, for people.
        warning: whether the object is usable nevertheless.
    """

    path: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
