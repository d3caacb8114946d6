"""Writes the tables of the documentation: from the schema, the vocabulary of reasons, and the recorded objects."""

import json
from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.schema.derive import (
    ABSENT,
    MOST_NODES,
    AnySchema,
    ArraySchema,
    BooleanSchema,
    IntegerSchema,
    IntOrStringSchema,
    MapSchema,
    ObjectSchema,
    Schema,
    StringSchema,
)
from nodeupgrade.api.upgrade.spec import SPEC
from tests.contract.gitops import argo
from tests.contract.gitops.examples import HEALTH
from tests.contract.gitops.kstatus import kstatus, waited_for
from tests.contract.gitops.recorded import conditions, load
from tests.contract.gitops.recordings import MOMENTS

_LABEL_SELECTOR = {"matchLabels", "matchExpressions"}


def fields() -> str:
    """Return a table of all fields of the spec of a NodeUpgrade."""
    head = "| field | value | default | may be changed | meaning |\n|---|---|---|---|---|\n"
    return head + "".join(_rows(SPEC, "", mutable=False))


def reasons() -> str:
    """Return a table of all reasons, in the order of the code: by what they are about."""
    head = "| reason | meaning | what to do |\n|---|---|---|\n"
    rows = (f"| `{reason.value}` | {_cell(reason.meaning)} | {_cell(reason.remedy)} |\n" for reason in Reason)
    return head + "".join(rows)


def verdicts() -> str:
    """Return a table of what tools make of every recorded object, in the order in which a rollout lives."""
    head = (
        "| moment | phase | reason | Argo CD | kstatus (Flux) | `kubectl wait --for=condition=Succeeded` |\n"
        "|---|---|---|---|---|---|\n"
    )
    objects = load()
    return head + "".join(_verdict(name, objects[name]) for name in MOMENTS)


def _verdict(name: str, body: Json) -> str:
    phase = body["status"].get("phase", "")
    reason = next((c["reason"] for c in conditions(body) if c["type"] == "Ready"), "")
    health, _ = argo.health(HEALTH, body)
    waits = "returns" if waited_for(body, "Succeeded") else "waits"
    if waited_for(body, "Succeeded", "False"):
        waits = "waits; `=condition=Succeeded=false` returns"
    return f"| {name.replace('-', ' ')} | {phase} | {reason} | {health} | {kstatus(body)} | {waits} |\n"


def _rows(record: ObjectSchema, prefix: str, *, mutable: bool) -> Iterator[str]:
    for name, child in record.properties.items():
        path, changes = f"{prefix}{name}", _changes(child, record, prefix, mutable=mutable)
        inside = _inside(child)
        required = " **required**" if name in record.required else ""
        default = "" if child.default is ABSENT or inside or child.default in ([], {}) else f"`{_text(child.default)}`"
        cells = (f"`{path}`", _value(child), default + required, changes, _cell(child.description))
        yield "| " + " | ".join(cell.strip() for cell in cells) + " |\n"
        if inside:
            suffix = {ArraySchema: "[].", MapSchema: ".PLATFORM."}.get(type(child), ".")
            yield from _rows(inside, path + suffix, mutable=mutable or child.mutable)


def _inside(schema: Schema) -> ObjectSchema | None:
    """Return the record whose fields are told in rows of their own."""
    match schema:
        case ObjectSchema(properties=inside):
            return None if set(inside) == _LABEL_SELECTOR else schema
        case ArraySchema(items=ObjectSchema() as item):
            return item
        case MapSchema(additional_properties=ObjectSchema() as value):
            return value
        case _:
            return None


def _value(schema: Schema) -> str:
    match schema:
        case StringSchema(enum=choices) if choices:
            return " \\| ".join(f"`{choice}`" for choice in choices)
        case StringSchema(format="date-time"):
            return "time"
        case StringSchema(expected=write, max_length=longest):
            return "duration" if write.startswith("a duration") else _cell(write) or f"text, at most {longest}"
        case IntOrStringSchema(maximum=most):
            return "from 1, or 1% to 100%" if most == MOST_NODES else f"1 to {most}, or 1% to 100%"
        case IntegerSchema(minimum=least, maximum=most):
            return f"{least} to {most}"
        case BooleanSchema():
            return "`true` \\| `false`"
        case ObjectSchema():
            return "" if _inside(schema) else "label selector"
        case ArraySchema(max_items=most):
            return f"list, at most {most}"
        case MapSchema(max_properties=most):
            return f"by platform, at most {most}"
        case _:
            raise AssertionError(schema)


def _changes(child: AnySchema, parent: ObjectSchema, prefix: str, *, mutable: bool) -> str:
    if not (mutable or child.mutable):
        return "no"
    if told := [transition.message.split(";")[0] for transition in child.transitions]:
        return "yes: " + _cell(", ".join(told))
    return f"see `{prefix.rstrip('.')}`" if mutable and parent.transitions else "yes"


def _text(default: object) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
