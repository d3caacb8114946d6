"""Tests how values are converted to and from JSON."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.json import MalformedFileError, MalformedObjectError, field_name, from_json, merge_patch, to_json
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.node.plan.plan import RunPlan
from tests.doubles.kube import merged
from tests.doubles.node import SimulatedNode, manifest, plan_for, pod_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    data: bytes
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    colour: Colour
    ratio: float
    yes: bool
    inner: tuple[Inner, ...] = ()
    table: dict[str, Inner]


INNER = st.builds(Inner, data=st.binary(max_size=20), number=st.none() | st.integers())
OUTER = st.builds(
    Outer,
    name=st.text(max_size=20),
    colour=st.sampled_from(Colour),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    yes=st.booleans(),
    inner=st.lists(INNER, max_size=3).map(tuple),
    table=st.dictionaries(st.text(max_size=5), INNER, max_size=3),
)


@given(OUTER)
def test_through_json_and_back(value: Outer) -> None:
    assert from_json(Outer, json.loads(json.dumps(to_json(value, strict=True))), strict=True) == value


def test_a_whole_plan_through_json_and_back() -> None:
    node = SimulatedNode(
        version="v1.26.15",
        pods=[pod_json("web", "nginx", sidecars=("mesh",))],
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=("--container-runtime=remote",),
    )
    plan = plan_for(node, "v1.33.13")

    assert plan.pins
    assert plan.swap.arguments
    assert from_json(RunPlan, json.loads(json.dumps(to_json(plan, strict=True))), strict=True) == plan


GOOD = {"name": "a", "colour": "red", "ratio": 1.5, "yes": True, "inner": [], "table": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, r"\$: unknown field 'extra' for Outer"),
        ({"name": None}, r"\$.name: it is NoneType, not str"),
        ({"name": 1}, r"\$.name: it is int, not str"),
        ({"yes": 1}, r"\$.yes: it is int, not bool"),
        ({"ratio": True}, r"\$.ratio: it is bool, not float"),
        ({"colour": "mauve"}, r"\$.colour: 'mauve' is not one of red"),
        ({"inner": {}}, r"\$.inner: it is dict, not list"),
        ({"inner": [{"data": "!"}]}, r"\$.inner\[0\].data: it is not base64"),
        ({"inner": [{}]}, r"\$.inner\[0\].data: it is missing"),
        ({"table": {"k": {"data": "", "number": "1"}}}, r"\$.table\[k\].number: it is str, not int"),
    ],
)
def test_another_shape_is_refused_by_name(change: dict[str, object], message: str) -> None:
    assert from_json(Outer, GOOD, strict=True).name == "a"

    with pytest.raises(MalformedFileError, match=message):
        from_json(Outer, {**GOOD, **change}, strict=True)


def test_what_no_rule_covers_is_not_written() -> None:
    with pytest.raises(TypeError, match="cannot encode set"):
        to_json({"a": {1, 2}}, strict=True)


VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_merge_patch_makes_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert merged(before, merge_patch(before, after)) == after


@pytest.mark.parametrize(
    ("python", "api"), [("run_id", "runID"), ("node_uid", "nodeUID"), ("url", "url"), ("started_at", "startedAt")]
)
def test_names_follow_the_api_s_habit(python: str, api: str) -> None:
    assert field_name(python) == api


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"phase": "Levitating"}, "phase"),
        ({"observedGeneration": "1"}, "observedGeneration"),
        ({"observedGeneration": True}, "observedGeneration"),
        ({"startedAt": "yesterday"}, "startedAt"),
        ({"steps": [{"name": "stop-kubelet", "result": "Maybe"}]}, r"steps\[0\].result"),
        ({"steps": [{"name": "stop-kubelet"}]}, r"steps\[0\].result"),
        ({"containers": []}, "containers"),
    ],
)
def test_wrong_values_are_named(body: dict[str, Any], where: str) -> None:
    with pytest.raises(MalformedObjectError, match=f"cannot read {where} because"):
        from_json(TaskStatus, body)


def test_unknown_fields_are_a_newer_writer_s_business() -> None:
    assert from_json(TaskStatus, {"runID": "r", "colour": "blue"}) == TaskStatus(run_id="r")
