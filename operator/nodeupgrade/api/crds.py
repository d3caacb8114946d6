"""Generates CustomResourceDefinitions: OpenAPI v3 with or without CEL rules, and printer columns."""

from dataclasses import dataclass, field
from typing import Final

from nodeupgrade.api.field import Rule
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.derive import Schema, Type
from nodeupgrade.api.schema.description import described

GROUP: Final = "nodeupgrade.dev"
VERSION: Final = "v1alpha1"


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
    name: Schema
    spec: Schema
    status: Schema
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
        **_validations(kind.rules, cel=cel),
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
    """Convert a schema to OpenAPI."""
    bounds = {
        "description": described(schema) or None,
        **_TYPES[schema.type],
        "required": list(schema.required) or None,
        "format": schema.format or _TYPES[schema.type].get("format"),
        "enum": list(schema.enum) or None,
        "minimum": schema.minimum,
        "maximum": schema.maximum,
        "minLength": schema.min_length or None,
        "maxLength": schema.max_length,
        "pattern": f"^{schema.pattern}$" if schema.pattern else None,
        "minProperties": schema.min_properties or None,
        "maxProperties": schema.max_properties,
        "maxItems": schema.max_items,
        "x-kubernetes-list-type": schema.list_type.value if schema.type is Type.ARRAY else None,
        "x-kubernetes-list-map-keys": [schema.list_map_key] if schema.list_map_key else None,
        "default": schema.default,
        **_validations(schema.rules, cel=cel),
        "properties": {name: openapi(child, cel=cel) for name, child in schema.properties.items()} or None,
        _ITEMS.get(schema.type, ""): None if schema.items is None else openapi(schema.items, cel=cel),
    }
    return {name: value for name, value in bounds.items() if value is not None}


_ITEMS = {Type.ARRAY: "items", Type.MAP: "additionalProperties"}
_TYPES: dict[Type, Json] = {kind: {"type": kind.value} for kind in Type} | {
    Type.INTEGER: {"type": "integer", "format": "int64"},
    Type.INT_OR_STRING: {"x-kubernetes-int-or-string": True},
    Type.MAP: {"type": "object"},
}


def _validations(rules: tuple[Rule, ...], *, cel: bool) -> Json:
    rendered = [{"rule": rule.cel, "message": rule.message} for rule in rules]
    return {"x-kubernetes-validations": rendered} if cel and rendered else {}
