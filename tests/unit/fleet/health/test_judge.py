"""Tests for the results of CEL expressions."""

import json
from typing import Any

import pytest

from nodeupgrade.fleet.health import judge

DEPLOYMENT = {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": {"conditions": [{"type": "Available"}]}}


def as_sent(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return cases as the program reads them."""
    read: list[dict[str, Any]] = json.loads(json.dumps(cases))
    return read


@pytest.mark.parametrize(
    ("expression", "variables", "holds"),
    [
        ("value == 0", {"value": 0.0}, True),
        ("value < 1", {"value": 1.5}, False),
        ("value < 1", {"value": float("-inf")}, True),
        ("labels.job == 'web' && value > 0.5", {"value": 1, "labels": {"job": "web"}}, True),
        ("object.spec.replicas == 2", {"object": DEPLOYMENT}, True),
        ("object.status.conditions.exists(c, c.type == 'Degraded')", {"object": DEPLOYMENT}, False),
        ("!has(object.status.phase)", {"object": DEPLOYMENT}, True),
    ],
)
def test_expressions_are_true_or_false(expression: str, variables: dict[str, Any], holds: bool) -> None:
    assert judge.evaluate(expression, as_sent([variables])) == {"false": [] if holds else [0]}


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "value <",
        "value",
        "'true'",
        "1",
        "null",
        "nothing == 1",
        "object.status.phase == 'x'",
        "1 / 0 == 1",
        "value < 'a'",
        "value < 1 || nothing == 1",
    ],
)
def test_what_is_neither_true_nor_false_is_an_error(expression: str) -> None:
    assert set(judge.evaluate(expression, as_sent([{"value": 5, "object": {"status": {}}}]))) == {"error"}
