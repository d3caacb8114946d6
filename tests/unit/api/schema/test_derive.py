"""Tests that the derived schemas agree with their types, and that they are bounded."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest

from nodeupgrade.api.crds import Kind
from nodeupgrade.api.field import RESOLVED, declared
from nodeupgrade.api.field import Field as Declared
from nodeupgrade.api.json import Json, from_json, to_json
from nodeupgrade.api.printer_columns import KINDS
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.schema.derive import Schema, Type, schema_of
from nodeupgrade.api.schema.unknown_fields import unknown
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus
from tests.builders.specs import DIGEST, MINIMAL

STATUS, TASK_SPEC, TASK_STATUS = schema_of(UpgradeStatus), schema_of(TaskSpec), schema_of(TaskStatus)


FILE: Json = {"path": "/etc/default/kubelet", "sha256": DIGEST, "imagePath": "/kubelet.env"}
BARE: Json = {
    **MINIMAL,
    "files": [FILE],
    "waves": [{"name": "canary", "size": 1}],
    "strategy": {"topology": {"key": "rack"}},
    "windows": [{"start": "0 22 * * *", "duration": "6h"}],
    "hooks": {"before": [{"template": "set-noout"}]},
    "healthChecks": [{"name": "errors", "prometheus": {"query": "errors", "expression": "value < 0.01"}}],
}
TASK: Json = {
    **dict.fromkeys(("nodeName", "nodeUID", "runID", "fromVersion", "toVersion"), "x"),
    "upgradeRef": {"name": "x", "uid": "x"},
    "artifact": {"kind": "Image"},
    "files": [FILE],
}


@pytest.mark.parametrize(
    ("schema", "kind", "value"),
    [
        (SPEC, UpgradeSpec, BARE),
        (STATUS, UpgradeStatus, {}),
        (TASK_SPEC, TaskSpec, TASK),
        (TASK_STATUS, TaskStatus, {}),
    ],
    ids=["spec", "status", "task's spec", "task's status"],
)
def test_what_the_api_server_fills_in_and_drops_is_what_the_types_say(schema: Schema, kind: type, value: Json) -> None:
    complete: Any = filled(schema, value)
    read: Any = from_json(kind, value)
    assert complete != value
    assert from_json(kind, complete) == read
    assert list(unknown(schema, to_json(read), "")) == []


@declared("Amounts.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Settings of the kinds that a task may take over."""

    most: Annotated[int, "At most.", Declared(minimum=1, maximum=9, defaulted=True)] = 3
    strict: Annotated[bool, "To the letter.", Declared(defaulted=True)] = False


@declared("Takes.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """What takes them over from input that was validated."""

    amounts: Annotated[Amounts, RESOLVED] = Amounts()


def test_of_what_a_task_takes_over_type_size_and_description_are_declared() -> None:
    taken = schema_of(Takes).properties["amounts"]

    assert taken.properties == {
        "most": Schema(type=Type.INTEGER, description="At most.", minimum=1, maximum=9),
        "strict": Schema(type=Type.BOOLEAN, description="To the letter."),
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_everything_is_bounded(kind: Kind) -> None:
    """Whatever somebody writes, objects stay small and rules cheap."""
    assert list(unbounded(kind.spec, "spec")) == []
    assert list(unbounded(kind.status, "status")) == []


def unbounded(schema: Schema, path: str) -> Iterator[str]:
    bounded = schema.max_length is not None or schema.enum or schema.format
    if schema.type is Type.STRING and not bounded:
        yield path
    for name, child in schema.properties.items():
        yield from unbounded(child, f"{path}.{name}")
    if schema.items is not None:
        yield from unbounded(schema.items, path)


def test_a_full_status_fits() -> None:
    """The API server stores no object above 1.5 MiB; ours stays far below, so that it can be written often."""
    ours = replace(STATUS.properties["conditions"], max_items=8)
    assert weight(replace(STATUS, properties={**STATUS.properties, "conditions": ours})) < 96 * 1024


def weight(schema: Schema) -> int:
    """Bytes of the largest value, in ASCII."""
    match schema.type:
        case Type.STRING:
            return 2 + max(schema.max_length or 0, 24, *map(len, schema.enum))
        case Type.OBJECT:
            return 2 + sum(len(name) + 4 + weight(child) for name, child in schema.properties.items())
        case Type.MAP:
            return 2 + (schema.max_properties or 0) * (64 + 4 + weight(schema.of("")))
        case Type.ARRAY:
            return 2 + (schema.max_items or 0) * (1 + weight(schema.of(0)))
        case _:
            return 8
