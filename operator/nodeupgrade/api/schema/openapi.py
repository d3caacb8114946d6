"""Writes schemas as the API server reads them: OpenAPI v3 with Kubernetes' extensions, with or without CEL rules."""

from collections.abc import Iterator
from typing import Any, assert_never

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.model import (
    ABSENT,
    GROUP,
    VERSION,
    Column,
    Flag,
    Kind,
    ListOf,
    MapOf,
    Number,
    Portion,
    Record,
    Rule,
    Schema,
    Sort,
    Text,
    Transition,
    Whole,
)

PERCENT = r"(100|[1-9][0-9]?)%"


def definition(kind: Kind, *, cel: bool) -> Json:
    """Write the CustomResourceDefinition; without ``cel`` for API servers before 1.25."""
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
    told = {"name": column.name, "type": column.type, "jsonPath": column.path}
    extras = {"description": column.says} if column.says else {}
    return {**told, **extras, **({"priority": 1} if column.wide else {})}


def _root(kind: Kind, *, cel: bool) -> Json:
    name = {"type": "string", "maxLength": kind.name.longest}
    return {
        "description": kind.says,
        "type": "object",
        "required": ["spec"],
        **_validations(kind.rules, (), cel=cel),
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # The API server allows nothing but bounds of the name here.
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": openapi(kind.spec, cel=cel),
            "status": openapi(kind.status, cel=cel),
        },
    }


def openapi(schema: Schema, *, cel: bool) -> Json:
    """Write one schema."""
    told: Json = {"description": schema.says} if schema.says else {}
    told.update(_shape(schema))
    if schema.default is not ABSENT:
        told["default"] = schema.default
    told.update(_validations(schema.rules, schema.transitions, cel=cel))
    told.update(_inside(schema, cel=cel))
    return told


def _shape(schema: Schema) -> Json:
    match schema:
        case Text():
            return dict(_text(schema))
        case Whole(least=least, most=most):
            limits = {"minimum": least, "maximum": most}
            return {"type": "integer", "format": "int64", **{k: v for k, v in limits.items() if v is not None}}
        case Number():
            return {"type": "number"}
        case Flag():
            return {"type": "boolean"}
        case Portion(most=most):
            bounds = {"minimum": 1, "maximum": most, "maxLength": 4, "pattern": f"^{PERCENT}$"}
            return {"x-kubernetes-int-or-string": True, **bounds}
        case Record(required=required):
            return {"type": "object", **({"required": list(required)} if required else {})}
        case MapOf(least=least, most=most):
            return {"type": "object", **({"minProperties": least} if least else {}), "maxProperties": most}
        case ListOf(most=most, sort=sort, key=key):
            keys = {"x-kubernetes-list-map-keys": [key]} if sort is Sort.MAP else {}
            return {"type": "array", "maxItems": most, "x-kubernetes-list-type": sort.value, **keys}
        case _:
            assert_never(schema)


def _text(schema: Text) -> Iterator[tuple[str, Any]]:
    yield "type", "string"
    if schema.moment:
        yield "format", "date-time"
    if schema.choices:
        yield "enum", list(schema.choices)
    if schema.shortest:
        yield "minLength", schema.shortest
    if schema.longest is not None:
        yield "maxLength", schema.longest
    if schema.pattern:
        yield "pattern", f"^{schema.pattern}$"


def _inside(schema: Schema, *, cel: bool) -> Json:
    match schema:
        case Record(fields=fields):
            return {"properties": {name: openapi(child, cel=cel) for name, child in fields.items()}}
        case MapOf(value=value):
            return {"additionalProperties": openapi(value, cel=cel)}
        case ListOf(item=item):
            return {"items": openapi(item, cel=cel)}
        case _:
            return {}


def _validations(rules: tuple[Rule, ...], transitions: tuple[Transition, ...], *, cel: bool) -> Json:
    both: tuple[Rule | Transition, ...] = (*rules, *transitions)
    told = [{"rule": rule.cel, "message": rule.message} for rule in both]
    return {"x-kubernetes-validations": told} if cel and told else {}
