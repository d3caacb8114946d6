"""Tests the generated CustomResourceDefinitions."""

from typing import Any

import pytest
import yaml

from nodeupgrade.api.crds import Kind
from nodeupgrade.api.printer_columns import KINDS
from tools import generate_crds


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.plural)
def test_manifests_differ_in_rules_only(kind: Kind) -> None:
    ruled, plain = (
        yaml.load((folder / f"{kind.plural}.yaml").read_text(), Loader=yaml.CSafeLoader)
        for folder in (generate_crds.CRDS, generate_crds.CRDS / "without-cel")
    )
    assert ruled != plain
    assert without_rules(ruled) == plain
    assert without_rules(plain) == plain


def without_rules(value: Any) -> Any:
    match value:
        case dict():
            return {k: without_rules(v) for k, v in value.items() if k != "x-kubernetes-validations"}
        case list():
            return [without_rules(item) for item in value]
        case _:
            return value
