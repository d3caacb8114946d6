"""Whether the shield was up, as the task's status says."""

from dataclasses import replace

import pytest

from nodeupgrade.api.json import from_json, to_json
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.task.status import ShieldReport, ShieldState
from nodeupgrade.api.task.step import Step
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.plan.plan import RunPlan, ShieldPlan
from nodeupgrade.node.task_status.run_status import run_status
from tests.unit.domain.node.run.test_task_report import PLAN, Line, journal

SHIELDED = replace(PLAN, shield=ShieldPlan(socket="/run/containerd/containerd.sock"))
NO_SHIELD = Finding(reason=Reason.SHIELD_UNAVAILABLE, detail="it is a mount point")
IMPOSSIBLE = ShieldReport(state=ShieldState.UNAVAILABLE, detail=NO_SHIELD.detail)
RAISED = ShieldReport(state=ShieldState.RAISED)


@pytest.mark.parametrize(
    ("plan", "lines", "told"),
    [
        (PLAN, [], ShieldReport(state=ShieldState.OFF)),
        (replace(PLAN, cautions=(NO_SHIELD,)), [], IMPOSSIBLE),
        (SHIELDED, [(Step.RAISE_SHIELD, Mark.DOING)], ShieldReport()),
        (SHIELDED, [(Step.RAISE_SHIELD, Mark.DONE)], RAISED),
        (SHIELDED, [(Step.RAISE_SHIELD, Mark.DONE), (Step.RAISE_SHIELD, Mark.UNDONE)], RAISED),
    ],
    ids=["off", "impossible", "not yet", "raised", "raised and lowered"],
)
def test_whether_the_shield_was_up_is_told(plan: RunPlan, lines: list[Line], told: ShieldReport) -> None:
    assert run_status("run", plan, journal(*lines)).shield == told


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
