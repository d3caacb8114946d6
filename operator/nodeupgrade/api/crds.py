"""The two kinds of objects, and their CustomResourceDefinitions: OpenAPI v3 with or without CEL rules, and columns."""

from dataclasses import dataclass, field, replace
from typing import Final

from nodeupgrade.api.field import Rule
from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import LABEL_LENGTH, NAME_LENGTH
from nodeupgrade.api.schema.derive import Schema, Type, schema_of
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.spec import SPEC
from nodeupgrade.api.upgrade.status import UpgradeStatus

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
    """Return one schema as OpenAPI."""
    bounds = {
        "description": schema.description or None,
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


# What ``kubectl get`` shows without ``-o wide`` must fit into 80 cells: kubectl drops no columns by itself.

_AGE = Column("Age", ".metadata.creationTimestamp", "date")


def _ready(field: str) -> str:
    return f'.status.conditions[?(@.type=="Ready")].{field}'


UPGRADE_KIND = Kind(
    kind="NodeUpgrade",
    plural="nodeupgrades",
    short="nu",
    description="One rollout of one kubelet version.",
    # The name is the value of a label on its tasks.
    name=Schema(
        type=Type.STRING,
        max_length=LABEL_LENGTH,
        min_length=1,
        pattern="[a-z0-9]([-a-z0-9.]*[a-z0-9])?",
        expected=f"a name of at most {LABEL_LENGTH} lower-case letters, digits, hyphens and dots",
    ),
    spec=SPEC,
    status=schema_of(UpgradeStatus),
    columns=(
        Column("Version", ".spec.version"),
        Column("Phase", ".status.phase"),
        Column("Progress", ".status.progress"),
        Column("Reason", _ready("reason")),
        Column("Failed", ".status.failed", "integer", "Nodes that failed or were rolled back", wide=True),
        Column("Restarts", ".status.containers.restarted", "integer", "Containers restarted", wide=True),
        Column("Wave", ".status.currentWave.name", wide=True),
        replace(_AGE, wide=True),
        Column("Ready", _ready("status"), wide=True),
        Column("Action", ".spec.action", wide=True),
        Column("Skipped", ".status.counts.skipped", "integer", wide=True),
        Column("Started", ".status.startedAt", "date", wide=True),
        # Not a date: kubectl shows dates as an age, and future ones as <invalid>.
        Column("Next Window", ".status.nextWindow", wide=True),
        Column("Message", _ready("message"), wide=True),
    ),
    comment=(
        "One rollout of one kubelet version. What may not change is checked by the API server (CEL, Kubernetes 1.25",
        "and later); the control plane checks everything again and reports it in the condition Accepted.",
    ),
)

TASK_KIND = Kind(
    kind="NodeUpgradeTask",
    plural="nodeupgradetasks",
    short="nut",
    description="The upgrade of one node. It has the name of the node.",
    name=Schema(type=Type.STRING, max_length=NAME_LENGTH),
    spec=schema_of(TaskSpec),
    status=schema_of(TaskStatus),
    columns=(
        Column("Upgrade", ".spec.upgradeRef.name"),
        Column("Wave", ".spec.wave", wide=True),
        Column("Phase", ".status.phase"),
        Column("From", ".spec.fromVersion", wide=True),
        Column("To", ".spec.toVersion"),
        Column("Restarted", ".status.containers.restarted", "integer"),
        Column("Down(s)", ".status.kubelet.downSeconds", "number", "Seconds without a kubelet", wide=True),
        _AGE,
        Column("Order", ".spec.order", "integer", wide=True),
        Column("Action", ".spec.action", wide=True),
        Column("Run", ".spec.runID", wide=True),
        Column("Verdict", ".spec.verdict.outcome", wide=True),
        Column("Own Cordon", ".spec.cordon.byUs", "boolean", "Cordoned for the run", wide=True),
        Column(
            "Would Restart",
            ".status.preview.wouldRestart",
            "integer",
            "Containers that a plain kubelet swap would restart",
            wide=True,
        ),
        Column("Reason", ".status.reason", wide=True),
        Column("Message", ".status.message", wide=True),
        Column("Check", ".status.hazards[0].check", "string", "What found the first hazard", wide=True),
        Column("Hazard", ".status.hazards[0].detail", "string", "The first hazard", wide=True),
    ),
    rules=(Rule("self.metadata.name == self.spec.nodeName", "a NodeUpgradeTask is named after its node"),),
    comment=(
        "One node's share of a rollout. The control plane writes the spec, the node side writes the status.",
        "The name is the node's name: creating or claiming the object is the lock on the node.",
    ),
)

KINDS = (UPGRADE_KIND, TASK_KIND)
