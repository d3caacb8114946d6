"""What the task's status says at each stage of a run, word for word, and within the API's limits."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import (
    ContainerCounts,
    GuardReport,
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
from nodeupgrade.api.values import BootIdentity, Digest, NodeName, RunId
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.plan.plan import PLAN_SCHEMA, KubeletSwap, RunPlan
from nodeupgrade.node.run.report import RunReport, probes_forgotten_at
from nodeupgrade.node.task_status.run_status import run_status
from nodeupgrade.node.task_status.task_status import (
    failed_status,
    refusal_status,
    stranded_status,
    unreadable_status,
    with_readiness,
)
from nodeupgrade.node.verification.readiness_flaps import Flaps
from tests.unit.domain.node.checks.sound import instance, inventory

START = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = RunPlan(
    schema=PLAN_SCHEMA,
    run_id=RunId("run.1"),
    node=NodeName("node-a"),
    upgrade="kubelet-1-33",
    from_version="v1.30.14",
    to_version="v1.33.13",
    runtime="containerd 1.7.2",
    runtime_unit="containerd.service",
    runtime_endpoint="/run/containerd/containerd.sock",
    healthz_url="http://127.0.0.1:10248/healthz",
    swap=KubeletSwap(
        unit="kubelet.service",
        path="/usr/bin/kubelet",
        staged="/usr/bin/.new",
        backup="/usr/bin/.old",
        before=Digest("0" * 64),
        after=Digest("1" * 64),
    ),
    containers=(),
    baseline=inventory(instance("1"), instance("2", name="log")),
)
BEFORE = KubeletBinary(version="v1.30.14", sha256="0" * 64, path="/usr/bin/kubelet")
AFTER = KubeletBinary(version="v1.33.13", sha256="1" * 64, path="/usr/bin/kubelet")
ENDED = RunReport(
    outcome=Outcome.UPGRADED,
    reason=Reason.SUCCEEDED,
    message="",
    down_seconds=0.9,
    baseline=2,
    rewritten=2,
    restarted=0,
    listed=(),
    rebooted=False,
)
CAUSE = "the kubelet exited with status 1"
Line = tuple[Step, Mark] | tuple[Step, Mark, str, Reason]


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def journal(*lines: Line, report: RunReport | None = None) -> Journal:
    """One record a second."""
    records = [
        Record(
            seq=number + 1,
            mark=line[1],
            step=line[0],
            boot=BootIdentity("boot"),
            at=at(number).isoformat(),
            monotonic=float(number),
            error=line[2] if len(line) > 2 else None,
            reason=line[3] if len(line) > 2 else None,
        )
        for number, line in enumerate(lines)
    ]
    if report is not None:
        last = Record(
            seq=len(lines) + 1,
            mark=Mark.FINISHED,
            boot=BootIdentity("boot"),
            at=at(len(lines)).isoformat(),
            monotonic=float(len(lines)),
            payload=to_json(report, strict=True),
        )
        records.append(last)
    return Journal(tuple(records))


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


CONFIRMED = StepStatus(name="confirm-binaries", result=StepResult.DONE, started_at=at(0), finished_at=at(1))
ONE_STEP: tuple[Line, ...] = ((Step.CONFIRM_BINARIES, Mark.DOING), (Step.CONFIRM_BINARIES, Mark.DONE))
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


LOST = replace(ENDED, restarted=1, listed=("default/web/nginx", "default/web (sandbox)"))
BACK = replace(ENDED, outcome=Outcome.ROLLED_BACK, reason=Reason.KUBELET_DID_NOT_START, message=CAUSE, rewritten=0)
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
        replace(BACK, restarted=1, listed=("default/web/nginx",)), TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START,
        f"rolled back to v1.30.14; 1 of 2 containers restarted, changed: default/web/nginx. Cause: {CAUSE}",
    ),
    "upgraded, and nobody could look": (
        replace(ENDED, looked=False), TaskPhase.FAILED, Reason.RUNTIME_DID_NOT_ANSWER,
        f"kubelet v1.33.13 runs, and everything had settled, but {NOT_KNOWN}",
    ),
    "rolled back, and nobody could look": (
        replace(BACK, looked=False), TaskPhase.ROLLED_BACK, Reason.KUBELET_DID_NOT_START,
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


@pytest.mark.parametrize(
    ("seen", "phase", "reason", "told"),
    [
        (journal(*ONE_STEP), TaskPhase.FAILED, Reason.INTERNAL_ERROR, "the node is untouched"),
        (
            journal(*ONE_STEP, (Step.STOP_KUBELET, Mark.DOING)),
            TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED.remedy,
        ),
    ],
)  # fmt: skip
def test_an_executor_that_stopped(seen: Journal, phase: TaskPhase, reason: Reason, told: str) -> None:
    status = stranded_status("run", PLAN, seen, "record 3 is missing")

    assert (status.phase, status.reason) == (phase, reason)
    assert status.message == f"the executor stopped: record 3 is missing; {told}"
    assert status.steps[0] == CONFIRMED


def test_a_run_that_cannot_be_read_is_taken_for_the_worst() -> None:
    status = unreadable_status("run", "record 1 is damaged")

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert "record 1 is damaged" in status.message


LONG = "x" * 2000
NAMES = tuple(f"{'n' * 63}/{'p' * 250}-{number}/{'c' * 63}" for number in range(20))
LENGTHY = journal(
    *((step, Mark.DOING) for step in Step),
    *((step, Mark.UNDO_FAILED, LONG, Reason.STEP_FAILED) for step in Step),
    report=replace(BACK, message=CAUSE, restarted=20, listed=NAMES),
)


@pytest.mark.parametrize(
    "status",
    [
        run_status("run", PLAN, LENGTHY),
        run_status("run", PLAN, Journal(LENGTHY.records[:-1])),
        refusal_status("run", tuple(Finding(reason=Reason.INTERNAL_ERROR, detail=LONG) for _ in range(30))),
        stranded_status("run", PLAN, LENGTHY, LONG),
        unreadable_status("run", LONG),
    ],
)
def test_the_limits_of_the_api_are_kept(status: TaskStatus) -> None:
    assert 0 < len(status.message) <= 512
    assert len(status.steps) <= 32
    assert all(len(step.detail or "") <= 128 for step in status.steps)
    assert len(status.hazards) <= 20
    assert all(len(hazard.detail) <= 512 for hazard in status.hazards)
    assert len(status.containers.restarted_list) <= 20


def test_what_to_do_survives_a_long_cause() -> None:
    for status in (stranded_status("run", PLAN, LENGTHY, LONG), unreadable_status("run", LONG)):
        assert status.message.endswith(Reason.ROLLBACK_FAILED.remedy)


STOPPED: tuple[Line, ...] = ((Step.STOP_KUBELET, Mark.DOING), (Step.STOP_KUBELET, Mark.DONE))
STARTED: tuple[Line, ...] = (*STOPPED, (Step.START_KUBELET, Mark.DOING), (Step.START_KUBELET, Mark.DONE))
RESTARTED: tuple[Line, ...] = (*STARTED, (Step.STOP_KUBELET, Mark.UNDOING), (Step.STOP_KUBELET, Mark.UNDONE))
FORGETTING: dict[str, tuple[Journal, str, datetime | None]] = {
    "upgraded": (journal(*STARTED, (Step.VERIFY, Mark.DONE), report=ENDED), "v1.34.4", at(3)),
    "upgraded to one that remembers": (journal(*STARTED, report=ENDED), "v1.35.0", None),
    "rolled back from one that remembers": (journal(*RESTARTED, report=BACK), "v1.35.0", at(5)),
    "never stopped": (journal(*ONE_STEP, report=BACK), "v1.33.13", None),
    "under way": (journal(*STARTED), "v1.33.13", None),
    "a human is needed": (
        journal(*RESTARTED, report=replace(BACK, outcome=Outcome.DEGRADED)), "v1.33.13", None
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "target", "moment"), FORGETTING.values(), ids=FORGETTING.keys())
def test_since_when_pods_are_not_probed_yet(seen: Journal, target: str, moment: datetime | None) -> None:
    assert probes_forgotten_at(replace(PLAN, to_version=target), seen) == moment


def unready(*names: str) -> Flaps:
    running = {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}
    metadata = [dict(zip(("namespace", "name"), name.split("/"), strict=True)) for name in names]
    pods = {name: parse_pod({"metadata": each, "status": running}) for name, each in zip(names, metadata, strict=True)}
    return Flaps(pods, frozenset(names))


def test_what_is_unready_in_the_end_is_never_cut_off() -> None:
    status = failed_status("run", Reason.STEP_FAILED, "x" * 600)
    flaps = unready(*(f"default/web-{number}" for number in range(30)))

    told = with_readiness(status, flaps, GuardReport(detail="d" * 250), "pods cannot be watched")

    assert told.message.endswith(
        "x; unready although their containers run on: default/web-0, default/web-1, default/web-10 and 27 more"
    )
    assert len(told.message) == 512
    assert len(told.containers.readiness_flaps) == 20
    assert 250 < len(told.guard.detail) <= 256
    assert with_readiness(told, flaps, GuardReport(), "").message == told.message, "it is said once"


def test_after_a_success_it_is_said_who_was_unready_for_a_while() -> None:
    status = run_status("run", PLAN, journal(*STARTED, report=ENDED))
    was = Flaps(flapped=frozenset({"default/web"}))

    told = with_readiness(status, was, GuardReport(), "")

    assert told.message == f"{status.message}; reported unready meanwhile: default/web"


def test_a_run_under_way_does_not_complain_of_what_may_pass() -> None:
    status = run_status("run", PLAN, journal(*STARTED))
    assert with_readiness(status, unready("default/web"), GuardReport(), "").message == status.message
