"""Tests the checks of labels, records, and static Pods that admission depends on."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import Admission
from tests.builders import admission_cases
from tests.builders.admission_record_cases import CASES, CAUTIONS, CHECKS, TRIED, WARNINGS


@pytest.mark.parametrize(("found", "told", "control"), CASES.values(), ids=CASES.keys())
def test_a_pod_that_would_be_killed_is_told_of_and_no_other(found: Admission, told: str, control: Admission) -> None:
    [finding] = ask(CHECKS, found)

    assert finding.reason is Reason.POD_WOULD_NOT_BE_ADMITTED
    assert told in finding.detail
    assert list(ask(CHECKS, control)) == []


@pytest.mark.parametrize(("found", "told", "control"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_forbids_nothing_is_told_of(found: Admission, told: str, control: Admission) -> None:
    [finding] = ask(WARNINGS, found)

    assert (finding.forbids, told in finding.detail) == (False, True), finding.detail
    assert (*ask(WARNINGS, control), *ask(CHECKS, found)) == ()


def test_every_check_is_tried_by_some_case() -> None:
    tried = [*(found for found, _, _ in admission_cases.CASES.values()), *TRIED]

    assert [check.name for check in (*CHECKS, *WARNINGS) if not any(list(check(found)) for found in tried)] == []
