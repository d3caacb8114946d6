"""Tests what is read from ginkgo's reports, and how two nodes are compared."""

import json
from pathlib import Path

import pytest

from e2e.conformance.outcomes import FAILED, PASSED, SKIPPED, Outcome, beside, read

AREA = "[sig-node] Pods"
_SECOND = 1_000_000_000


def _spec(leaf: str, state: str, message: str = "") -> dict[str, object]:
    failure = {"Failure": {"Message": message}} if message else {}
    return {
        "ContainerHierarchyTexts": ["[sig-node] Pods [NodeConformance]"], "LeafNodeText": leaf, "LeafNodeType": "It",
        "State": state, "RunTime": 3 * _SECOND, **failure,
    }  # fmt: skip


@pytest.fixture
def report(tmp_path: Path) -> Path:
    setup = {"ContainerHierarchyTexts": None, "LeafNodeText": "", "LeafNodeType": "BeforeSuite", "State": "passed"}
    specs = [
        setup,
        _spec("run", "passed"),
        _spec("hang", "timedout", "late\nand more"),
        _spec("break", "panicked", "why"),
        _spec("leave out", "skipped", "not here"),
    ]
    file = tmp_path / "report.json"
    file.write_text(json.dumps([{"SpecReports": specs}, {"SpecReports": None}]))
    return file


def test_whatever_is_neither_passed_nor_skipped_has_failed(report: Path) -> None:
    names = (
        "[sig-node] Pods [NodeConformance] run",
        "[sig-node] Pods [NodeConformance] hang",
        "[sig-node] Pods [NodeConformance] leave out",
    )

    assert read(report, names) == {
        names[0]: Outcome(area=AREA, state=PASSED, seconds=3.0),
        names[1]: Outcome(area=AREA, state=FAILED, seconds=3.0, said="late"),
        names[2]: Outcome(area=AREA, state=SKIPPED, seconds=3.0, said="not here"),
    }


def test_without_a_choice_what_was_filtered_out_is_not_a_spec(report: Path) -> None:
    assert [*read(report)] == [
        "[sig-node] Pods [NodeConformance] run",
        "[sig-node] Pods [NodeConformance] hang",
        "[sig-node] Pods [NodeConformance] break",
    ]


def test_a_spec_is_the_same_on_both_nodes_if_its_state_is() -> None:
    passed, failed = (
        Outcome(area=AREA, state=PASSED, seconds=1.0),
        Outcome(area=AREA, state=FAILED, seconds=2.0, said="why"),
    )

    rows = beside({"a": passed, "b": failed, "c": passed}, {"a": passed, "b": failed, "c": failed})

    assert [(row.spec, row.same, row.said) for row in rows] == [
        ("a", True, ""),
        ("b", True, "why"),
        ("c", False, "why"),
    ]


def test_a_spec_that_ran_on_one_node_only_is_not_passed_over() -> None:
    with pytest.raises(KeyError, match="b"):
        beside(
            {"a": Outcome(area=AREA, state=PASSED, seconds=1.0)}, {"b": Outcome(area=AREA, state=PASSED, seconds=1.0)}
        )
