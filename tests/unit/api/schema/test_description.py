"""Tests that ``kubectl explain`` is a manual: each field has a description with its default, unit and bounds."""

from collections.abc import Iterator

import pytest

from nodeupgrade.api.crds import openapi
from nodeupgrade.api.json import Json
from nodeupgrade.api.printer_columns import KINDS
from nodeupgrade.api.schema.derive import Schema, Type
from nodeupgrade.api.schema.description import described

FIELDS: dict[str, Json] = {}


def fields(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for name, child in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], f"{path}[]")


for kind in KINDS:
    for part, schema in (("spec", kind.spec), ("status", kind.status)):
        FIELDS |= fields(openapi(schema, cel=False), f"{kind.kind}.{part}")


def test_every_field_is_described() -> None:
    assert len(FIELDS) > 390
    assert [path for path, field in FIELDS.items() if not field.get("description")] == []


def test_every_default_is_in_its_description() -> None:
    """Objects and lists that are empty have none to show: what is in them has its own."""
    defaulted = {path: field for path, field in FIELDS.items() if field.get("default") not in (None, {}, [])}
    assert len(defaulted) > 50
    assert [path for path, field in defaulted.items() if "Default: " not in field["description"]] == []


def test_every_number_has_its_bounds_and_every_time_its_unit() -> None:
    bounds = {"minimum": ("At least", "From", "from 1"), "maximum": ("At most", "From", "from 1"),
              "maxItems": ("At most",)}  # fmt: skip
    for path, field in FIELDS.items():
        for bound, words in bounds.items():
            assert bound not in field or any(word in field["description"] for word in words), path
        if path.endswith("Seconds"):
            assert "econds" in field["description"], path


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema(type=Type.STRING), ""),
        (Schema(type=Type.STRING, description="A.", default="b", max_length=9), "A. Default: b. At most 9 characters."),
        (Schema(type=Type.BOOLEAN, description="A.", default=False), "A. Default: false."),
        (Schema(type=Type.INTEGER, description="A.", minimum=1, maximum=5), "A. From 1 to 5."),
        (Schema(type=Type.INTEGER, description="A.", minimum=0), "A. At least 0."),
        (Schema(type=Type.ARRAY, description="A.", default=[], max_items=3), "A. At most 3 items."),
    ],
)
def test_what_is_added(schema: Schema, text: str) -> None:
    assert described(schema) == text
