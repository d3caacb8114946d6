"""Tests the checks of Pods that a starting kubelet would reject, each with a control."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.registry import OF_ADMISSION
from tests.builders.admission_cases import CASES
from tests.builders.admitted import admission, pod

CHECKS = [check for check in OF_ADMISSION if not check.warns]


@pytest.mark.parametrize(("found", "told", "control"), CASES.values(), ids=CASES.keys())
def test_a_pod_that_would_be_killed_is_told_of_and_no_other(found: Admission, told: str, control: Admission) -> None:
    [finding] = ask(CHECKS, found)

    assert finding.reason is Reason.POD_WOULD_NOT_BE_ADMITTED
    assert told in finding.detail
    assert list(ask(CHECKS, control)) == []


def test_pods_that_have_ended_count_for_nothing() -> None:
    ended = {**pod("b", os={"name": "windows"}), "status": {"phase": "Failed"}}

    assert list(ask(CHECKS, admission(pod("a"), ended, config=b"maxPods: 1"))) == []
