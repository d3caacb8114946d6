from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.json import MalformedObjectError, field_name, from_json, merge_patch
from nodeupgrade.api.task.status import TaskStatus
from tests.doubles.kube import merged

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
