"""Writes the tables of the documentation: from the schema, the vocabulary of reasons, and the recorded objects."""

import json
from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.schema.derive import MOST_NODES, Schema, Type
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


def _rows(record: Schema, prefix: str, *, mutable: bool) -> Iterator[str]:
    for name, child in record.properties.items():
        path, changes = f"{prefix}{name}", _changes(child, record, prefix, mutable=mutable)
        inside = _inside(child)
        required = " **required**" if name in record.required else ""
        default = "" if inside or child.default in (None, [], {}) else f"`{_text(child.default)}`"
        cells = (f"`{path}`", _value(child), default + required, changes, _cell(child.description))
        yield "| " + " | ".join(cell.strip() for cell in cells) + " |\n"
        if inside:
            suffix = {Type.ARRAY: "[].", Type.MAP: ".PLATFORM."}.get(child.type, ".")
            yield from _rows(inside, path + suffix, mutable=mutable or child.mutable)


def _inside(schema: Schema) -> Schema | None:
    """Return the record whose fields are told in rows of their own."""
    held = schema.items or schema
    return held if held.properties and set(held.properties) != _LABEL_SELECTOR else None


def _value(schema: Schema) -> str:
    match schema.type:
        case Type.STRING if schema.enum:
            return " \\| ".join(f"`{choice}`" for choice in schema.enum)
        case Type.STRING if schema.format:
            return "time"
        case Type.STRING:
            write = schema.expected
            return (
                "duration" if write.startswith("a duration") else _cell(write) or f"text, at most {schema.max_length}"
            )
        case Type.INT_OR_STRING:
            return "from 1, or 1% to 100%" if schema.maximum == MOST_NODES else f"1 to {schema.maximum}, or 1% to 100%"
        case Type.INTEGER:
            return f"{schema.minimum} to {schema.maximum}"
        case Type.BOOLEAN:
            return "`true` \\| `false`"
        case Type.OBJECT:
            return "" if _inside(schema) else "label selector"
        case Type.ARRAY:
            return f"list, at most {schema.max_items}"
        case Type.MAP:
            return f"by platform, at most {schema.max_properties}"
        case _:
            raise AssertionError(schema)


def _changes(child: Schema, parent: Schema, prefix: str, *, mutable: bool) -> str:
    if not (mutable or child.mutable):
        return "no"
    if told := [rule.message.split(";")[0] for rule in child.rules if rule.transition]:
        return "yes: " + _cell(", ".join(told))
    return f"see `{prefix.rstrip('.')}`" if mutable and any(rule.transition for rule in parent.rules) else "yes"


def _text(default: object) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
