"""Writes schemas as OpenAPI v3 with Kubernetes' extensions, with or without CEL rules, and whole CRDs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

from nodeupgrade.api.field import ListType, Rule, TransitionRule
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.derive import (
    ABSENT,
    ArraySchema,
    BooleanSchema,
    IntegerSchema,
    IntOrStringSchema,
    MapSchema,
    NumberSchema,
    ObjectSchema,
    Schema,
    StringSchema,
)

GROUP: Final = "nodeupgrade.dev"
VERSION: Final = "v1alpha1"

PERCENT = r"(100|[1-9][0-9]?)%"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; a ``wide`` one (priority 1) is shown only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object, with everything that its CustomResourceDefinition needs."""

    kind: str
    plural: str
    short: str
    description: str
    name: StringSchema
    spec: ObjectSchema
    status: ObjectSchema
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    comment: tuple[str, ...] = ()

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


def definition(kind: Kind, *, cel: bool) -> Json:
    """Return the CustomResourceDefinition; use ``cel=False`` for API servers before 1.25."""
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in kind.columns],
        "schema": {"openAPIV3Schema": _root(kind, cel=cel)},
    }
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": [kind.short],
        "categories": ["kubelet-upgrade"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name, "labels": {"app.kubernetes.io/part-of": "nodeupgrade"}},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def _column(column: Column) -> Json:
    required = {"name": column.name, "type": column.type, "jsonPath": column.path}
    extras = {"description": column.description} if column.description else {}
    return {**required, **extras, **({"priority": 1} if column.wide else {})}


def _root(kind: Kind, *, cel: bool) -> Json:
    name = {"type": "string", "maxLength": kind.name.max_length}
    return {
        "description": kind.description,
        "type": "object",
        "required": ["spec"],
        **_validations(kind.rules, (), cel=cel),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # The API server allows only restrictions of the name (and generateName) here.
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": openapi(kind.spec, cel=cel),
            "status": openapi(kind.status, cel=cel),
        },
    }


def openapi(schema: Schema, *, cel: bool) -> Json:
    """Return one schema as OpenAPI."""
    document: Json = {"description": schema.description} if schema.description else {}
    document.update(_shape(schema))
    if schema.default is not ABSENT:
        document["default"] = schema.default
    document.update(_validations(schema.rules, schema.transitions, cel=cel))
    document.update(_inside(schema, cel=cel))
    return document


def _shape(schema: Schema) -> Json:
    match schema:
        case StringSchema():
            return dict(_string(schema))
        case IntegerSchema(minimum=minimum, maximum=maximum):
            limits = {"minimum": minimum, "maximum": maximum}
            return {"type": "integer", "format": "int64", **{k: v for k, v in limits.items() if v is not None}}
        case NumberSchema():
            return {"type": "number"}
        case BooleanSchema():
            return {"type": "boolean"}
        case IntOrStringSchema(maximum=maximum):
            bounds = {"minimum": 1, "maximum": maximum, "maxLength": 4, "pattern": f"^{PERCENT}$"}
            return {"x-kubernetes-int-or-string": True, **bounds}
        case ObjectSchema(required=required):
            return {"type": "object", **({"required": list(required)} if required else {})}
        case MapSchema(min_properties=least, max_properties=most):
            return {"type": "object", **({"minProperties": least} if least else {}), "maxProperties": most}
        case ArraySchema(max_items=most, list_type=list_type, list_map_key=key):
            keys = {"x-kubernetes-list-map-keys": [key]} if list_type is ListType.MAP else {}
            return {"type": "array", "maxItems": most, "x-kubernetes-list-type": list_type.value, **keys}
        case _:
            assert_never(schema)


def _string(schema: StringSchema) -> Iterator[tuple[str, Any]]:
    yield "type", "string"
    if schema.format:
        yield "format", schema.format
    if schema.enum:
        yield "enum", list(schema.enum)
    if schema.min_length:
        yield "minLength", schema.min_length
    if schema.max_length is not None:
        yield "maxLength", schema.max_length
    if schema.pattern:
        yield "pattern", f"^{schema.pattern}$"


def _inside(schema: Schema, *, cel: bool) -> Json:
    match schema:
        case ObjectSchema(properties=properties):
            return {"properties": {name: openapi(child, cel=cel) for name, child in properties.items()}}
        case MapSchema(additional_properties=value):
            return {"additionalProperties": openapi(value, cel=cel)}
        case ArraySchema(items=item):
            return {"items": openapi(item, cel=cel)}
        case _:
            return {}


def _validations(rules: tuple[Rule, ...], transitions: tuple[TransitionRule, ...], *, cel: bool) -> Json:
    both: tuple[Rule | TransitionRule, ...] = (*rules, *transitions)
    rendered = [{"rule": rule.cel, "message": rule.message} for rule in both]
    return {"x-kubernetes-validations": rendered} if cel and rendered else {}
