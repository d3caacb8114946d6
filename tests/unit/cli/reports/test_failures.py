"""Tests what `nodeupgrade failures` says of nodes that were refused, and by which check."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.task.status import ReportedHazard
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.check_catalogue import ROLLOUT_CHECKS
from nodeupgrade.cli.reports.failures import failures, found_by
from tests.builders.finished_rollouts import finished_rollout, finished_tasks

REASON = Reason.STORED_HASH_NOT_REPRODUCED
FOUND = ReportedHazard(reason=REASON.value, check="hashes_are_reproduced")


def refused(*hazards: ReportedHazard, outcome: Verdict = Verdict.REFUSED) -> Task:
    (task,) = finished_tasks(1, at_once=1)
    verdict = RunVerdict(run_id=task.spec.run_id, outcome=outcome, reason=REASON, message="because")
    status = replace(task.reported, hazards=hazards)
    return replace(task, spec=replace(task.spec, verdict=verdict), status=status)


def listed(outcome: Verdict | None, reason: str = Reason.NODE_UNDER_PRESSURE.value) -> Upgrade:
    failure = NodeFailure(node=NodeName("a"), reason=reason, outcome=outcome)
    upgrade = finished_rollout(finished_tasks(1, at_once=1))
    return replace(upgrade, status=replace(upgrade.status, failures=(failure,)))


@pytest.mark.parametrize(
    ("task", "check"),
    [
        (refused(replace(FOUND, check="other", warning=True), replace(FOUND, reason="Other"), FOUND), FOUND.check),
        (refused(replace(FOUND, check="")), ""),
        (refused(), ""),
        (refused(FOUND, outcome=Verdict.FAILED), ""),
    ],
    ids=["first that forbids", "of an old agent", "none", "no refusal"],
)
def test_the_check_is_the_one_whose_reason_the_verdict_has(task: Task, check: str) -> None:
    assert found_by(task) == check


def test_what_the_control_plane_refuses_is_named_by_the_reason() -> None:
    assert [each.check for each in failures(listed(None), [])] == ["node_is_not_under_pressure"]
    assert [each.check for each in failures(listed(None, "NotInventedYet"), [])] == [""]
    assert [each.check for each in failures(listed(Verdict.REFUSED), [])] == [""], "an agent did, whose task is gone"


def test_no_two_checks_of_the_control_plane_refuse_for_the_same_reason() -> None:
    reasons = [reason for check in ROLLOUT_CHECKS if not check.warns for reason in check.reasons]
    assert len(reasons) == len({*reasons})
