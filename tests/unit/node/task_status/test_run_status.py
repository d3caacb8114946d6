"""Tests the status of a task at each stage of a run."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import (
    ContainerCounts,
    KubeletBinary,
    KubeletStatus,
    RuntimeStatus,
    ShieldReport,
    ShieldState,
    StepResult,
    StepStatus,
    TaskPhase,
    TaskStatus,
)
from nodeupgrade.api.task.step import Step
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.plan.plan import RunPlan, ShieldPlan
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.task_status.run_status import run_status
from tests.builders.run_journal import BACK, CAUSE, CONFIRMED, ENDED, ONE_STEP, PLAN, START, Line, at, journal

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


BEFORE = KubeletBinary(version="v1.30.14", sha256="0" * 64, path="/usr/bin/kubelet")
AFTER = KubeletBinary(version="v1.33.13", sha256="1" * 64, path="/usr/bin/kubelet")


def running(phase: TaskPhase, reason: str, message: str, *steps: StepStatus) -> TaskStatus:
    return TaskStatus(
        run_id="run",
        phase=phase,
        reason=reason,
        message=message,
        steps=steps,
        kubelet=KubeletStatus(before=BEFORE),
        runtime=RuntimeStatus(name="containerd", version="1.7.2"),
        shield=ShieldReport(state=ShieldState.OFF),
        containers=ContainerCounts(baseline=2),
        started_at=START,
    )


UNDER_WAY: dict[str, tuple[Journal, TaskStatus]] = {
    "not begun": (
        Journal(),
        replace(running(TaskPhase.RUNNING, "Progressing", "v1.30.14 to v1.33.13: confirm-binaries"), started_at=None),
    ),
    "running": (
        journal(*ONE_STEP, (Step.STOP_KUBELET, Mark.DOING)),
        running(
            TaskPhase.RUNNING, "Progressing", "v1.30.14 to v1.33.13: stop-kubelet",
            CONFIRMED, StepStatus(name="stop-kubelet", result=StepResult.DOING, started_at=at(2)),
        ),
    ),
    "verifying": (
        journal(*ONE_STEP, (Step.VERIFY, Mark.DOING)),
        running(
            TaskPhase.VERIFYING, "Progressing", "v1.30.14 to v1.33.13: verify",
            CONFIRMED, StepStatus(name="verify", result=StepResult.DOING, started_at=at(2)),
        ),
    ),
    "rolling back": (
        journal(
            (Step.STOP_KUBELET, Mark.DOING),
            (Step.STOP_KUBELET, Mark.DONE),
            (Step.START_KUBELET, Mark.DOING),
            (Step.START_KUBELET, Mark.FAILED, CAUSE, Reason.KUBELET_DID_NOT_START),
            (Step.START_KUBELET, Mark.UNDOING, CAUSE, Reason.KUBELET_DID_NOT_START),
            (Step.START_KUBELET, Mark.UNDONE),
            (Step.STOP_KUBELET, Mark.UNDOING, CAUSE, Reason.KUBELET_DID_NOT_START),
            (Step.STOP_KUBELET, Mark.UNDO_FAILED, "systemd is busy", Reason.STEP_FAILED),
        ),
        running(
            TaskPhase.ROLLING_BACK, "KubeletDidNotStart",
            f"going back: {CAUSE}; undoing stop-kubelet failed 1 time and is tried again, at last because systemd is "
            "busy",
            StepStatus(name="stop-kubelet", result=StepResult.FAILED, started_at=at(0), detail="systemd is busy"),
            StepStatus(
                name="start-kubelet", result=StepResult.UNDONE, started_at=at(2), finished_at=at(5), detail=CAUSE
            ),
        ),
    ),
    "held": (
        journal(
            (Step.STOP_KUBELET, Mark.DOING),
            (Step.STOP_KUBELET, Mark.UNDOING, CAUSE, Reason.KUBELET_DID_NOT_START),
            (Step.STOP_KUBELET, Mark.HELD, "the runtime shows nothing", Reason.RUNTIME_LOST_PODS),
        ),
        running(
            TaskPhase.ROLLING_BACK, "RuntimeLostPods",
            "waiting with the kubelet fenced: the runtime shows nothing; "
            f"{Reason.RUNTIME_LOST_PODS.remedy}",
            StepStatus(
                name="stop-kubelet", result=StepResult.UNDOING, started_at=at(0), detail="the runtime shows nothing"
            ),
        ),
    ),
    "aborted": (
        journal(*ONE_STEP, (Step.CONFIRM_BINARIES, Mark.UNDOING, "aborted", Reason.ABORTED)),
        running(
            TaskPhase.ROLLING_BACK, "Aborted", "going back: aborted",
            StepStatus(name="confirm-binaries", result=StepResult.UNDOING, started_at=at(0), detail="aborted"),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "status"), UNDER_WAY.values(), ids=UNDER_WAY.keys())
def test_a_run_under_way(seen: Journal, status: TaskStatus) -> None:
    assert run_status("run", PLAN, seen) == status


LOST = replace(ENDED, same=1, restarted=1, listed=("default/web/nginx", "default/web (sandbox)"))

NOT_KNOWN = "whether anything restarted is not known: the runtime did not answer at the end"
LOST_TOLD = "1 of 2 containers restarted, changed: default/web/nginx, default/web (sandbox)"
ENDINGS: dict[str, tuple[RunReport, TaskPhase, Reason, str]] = {
    "upgraded": (
        ENDED, TaskPhase.SUCCEEDED, Reason.SUCCEEDED,
        "kubelet v1.30.14 became v1.33.13; all 2 containers are the same instances, 2 hashes rewritten",
    ),
    "restarted after the commit": (
        LOST, TaskPhase.FAILED, Reason.CONTAINER_RESTARTED,
        f"kubelet v1.33.13 runs, but {LOST_TOLD}",
    ),
    "rebooted after the commit": (
        replace(LOST, rebooted=True), TaskPhase.FAILED, Reason.NODE_REBOOTED,
        f"kubelet v1.33.13 runs, but the node was rebooted before the run was over: {LOST_TOLD}",
    ),
    "a monitor lost after the commit": (
        replace(ENDED, listed=("default/web (sandbox)",)), TaskPhase.FAILED, Reason.CONTAINER_RESTARTED,
        "kubelet v1.33.13 runs, but 0 of 2 containers restarted, changed: default/web (sandbox)",
    ),
    "rolled back": (
        BACK, TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START,
        f"rolled back to v1.30.14; nothing restarted. Cause: {CAUSE}",
    ),
    "rolled back too late": (
        replace(BACK, same=1, restarted=1, listed=("default/web/nginx",)),
        TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START,
        f"rolled back to v1.30.14; 1 of 2 containers restarted, changed: default/web/nginx. Cause: {CAUSE}",
    ),
    "upgraded, and nobody could look": (
        replace(ENDED, looked=False), TaskPhase.FAILED, Reason.RUNTIME_DID_NOT_ANSWER,
        f"kubelet v1.33.13 runs, and everything had settled, but {NOT_KNOWN}",
    ),
    "rolled back, and nobody could look": (
        replace(BACK, looked=False, unrecognised_ended=("default/late/app",)),
        TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START,
        f"rolled back to v1.30.14; {NOT_KNOWN}. Cause: {CAUSE}",
    ),
    "not rolled back": (
        replace(BACK, outcome=Outcome.DEGRADED, message="stop-kubelet cannot be undone"),
        TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED,
        f"stop-kubelet cannot be undone; {Reason.ROLLBACK_FAILED.remedy}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("report", "phase", "reason", "message"), ENDINGS.values(), ids=ENDINGS.keys())
def test_a_run_that_is_over(report: RunReport, phase: TaskPhase, reason: Reason, message: str) -> None:
    assert run_status("run", PLAN, journal(*ONE_STEP, report=report)) == TaskStatus(
        run_id="run",
        phase=phase,
        reason=reason,
        message=message,
        steps=(CONFIRMED,),
        kubelet=KubeletStatus(
            before=BEFORE, after=AFTER if report.outcome is Outcome.UPGRADED else None, down_seconds=0.9
        ),
        runtime=RuntimeStatus(name="containerd", version="1.7.2"),
        shield=ShieldReport(state=ShieldState.OFF),
        containers=ContainerCounts(
            baseline=2,
            rewritten=report.rewritten,
            unchanged=2 - report.restarted if report.looked else 0,
            restarted=report.restarted,
            unknown=0 if report.looked else 2,
            restarted_list=report.listed,
        ),
        started_at=START,
        finished_at=at(2),
    )
