"""Where the seconds of a node's run went."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.task.status import StepResult, StepStatus, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.cli.reports.account import account
from tests.scenario.agent.given import upgrade_task

RUN = RunId("12345678-20260101120000-abcdef")
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def run(result: StepResult = StepResult.DONE, *, verdict: float | None = 84) -> Task:
    ends = {Step.STOP_KUBELET: 5.0, Step.START_KUBELET: 8.8, Step.AWAIT_NODE_STATUS: 9.3, Step.VERIFY: 69.3}
    steps = tuple(StepStatus(name=name, result=result, finished_at=at(end)) for name, end in ends.items())
    task = upgrade_task(NodeName("a"), RUN, "v1.30.14", "v1.33.13", source="/opt/kubelet")
    reported = TaskStatus(run_id=RUN, phase=TaskPhase.SUCCEEDED, started_at=at(4.7), finished_at=at(69.9), steps=steps)
    decided = RunVerdict(run_id=RUN, outcome=Verdict.SUCCEEDED, reason=Reason.SUCCEEDED, decided_at=at(verdict or 0))
    return replace(task, spec=replace(task.spec, verdict=decided if verdict else None), status=reported)


def test_every_second_from_the_slot_to_the_verdict_is_accounted_for() -> None:
    parts = account(run())

    assert [*parts.items()] == [
        ("prepare", 4.7), ("exchange", 4.1), ("show", 0.5), ("settle", 60.0), ("finish", 0.6), ("verdict", 14.1),
    ]  # fmt: skip
    assert round(sum(parts.values()), 1) == 84


def test_only_what_is_over_is_counted_and_a_rollback_as_one() -> None:
    assert account(run(verdict=None)).keys() == {"prepare", "exchange", "show", "settle", "finish"}
    assert account(run(StepResult.UNDONE, verdict=None)) == {"prepare": 4.7, "finish": 65.2}


def test_clocks_that_differ_make_nothing_negative() -> None:
    assert account(run(verdict=60))["verdict"] == 0
