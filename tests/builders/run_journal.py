"""Builds the plan and the journal of a run, one record per second."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.json import to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import StepResult, StepStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity, Digest, NodeName, RunId
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.plan.plan import PLAN_SCHEMA, KubeletSwap, RunPlan
from nodeupgrade.node.run.report import RunReport
from tests.builders.sound import instance, inventory

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


ENDED = RunReport(
    outcome=Outcome.UPGRADED,
    reason=Reason.SUCCEEDED,
    message="",
    down_seconds=0.9,
    baseline=2,
    same=2,
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


CONFIRMED = StepStatus(name="confirm-binaries", result=StepResult.DONE, started_at=at(0), finished_at=at(1))
ONE_STEP: tuple[Line, ...] = ((Step.CONFIRM_BINARIES, Mark.DOING), (Step.CONFIRM_BINARIES, Mark.DONE))


BACK = replace(ENDED, outcome=Outcome.ROLLED_BACK, reason=Reason.KUBELET_DID_NOT_START, message=CAUSE, rewritten=0)


STOPPED: tuple[Line, ...] = ((Step.STOP_KUBELET, Mark.DOING), (Step.STOP_KUBELET, Mark.DONE))
STARTED: tuple[Line, ...] = (*STOPPED, (Step.START_KUBELET, Mark.DOING), (Step.START_KUBELET, Mark.DONE))
