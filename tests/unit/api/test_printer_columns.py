"""Tests the types of printer columns."""

import pytest

from nodeupgrade.api.crds import Kind
from nodeupgrade.api.printer_columns import KINDS
from nodeupgrade.api.schema.derive import Schema, Type


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_columns_have_the_types_of_their_values(kind: Kind) -> None:
    """Else the API server leaves the cell empty."""
    for column in kind.columns:
        if column.path.startswith(".metadata"):
            continue
        schema = Schema(type=Type.OBJECT, properties={"spec": kind.spec, "status": kind.status})
        for step in column.path.replace("[0]", "[]").replace('[?(@.type=="Ready")]', "[]").lstrip(".").split("."):
            schema = schema.properties[step.removesuffix("[]")]
            schema = schema.items or schema
        assert schema.type == {"date": Type.STRING}.get(column.type, column.type), column.path
        assert column.type != "date" or schema.format
