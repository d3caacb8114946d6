"""Tests the plan of a run."""

from dataclasses import replace

from nodeupgrade.api.json import from_json, to_json
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.values import PodUid
from nodeupgrade.findings.finding import Finding
from tests.builders.planned_container import PLANNED
from tests.builders.run_journal import PLAN
from tests.builders.socket_cases import FOLLOWS


def test_who_may_end_with_the_runtime_must_be_started_again() -> None:
    assert FOLLOWS.may_end_with_runtime
    assert not replace(FOLLOWS, restarts_itself=False).may_end_with_runtime
    assert not replace(FOLLOWS, connected=False, pod=replace(PLANNED.pod, uid=PodUid("x"))).may_end_with_runtime


def test_warnings_in_the_plan_of_an_earlier_version_are_warnings() -> None:
    written = {
        "reason": "UnsupportedRuntime",
        "detail": "x",
        "subject": "",
        "check": "c",
        "accepted": True,
        "owner": "",
    }
    plan = replace(PLAN, cautions=(from_json(Finding, written, strict=True),))

    assert [(each.check, each.accepted, each.forbids) for each in plan.warnings] == [("c", True, False)]


def test_warnings_are_read_from_a_plan_as_they_were_written() -> None:
    warning = Finding(reason=Reason.CLOCK_SKEW, detail="it is off", severity=Severity.WARN, remedy="set it")

    assert from_json(Finding, to_json(warning, strict=True), strict=True) == warning
