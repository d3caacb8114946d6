"""Tests how a run carries out its steps."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run.progress_deadline import longest_silence, seconds_without_progress
from nodeupgrade.node.run.run import NodeRun
from nodeupgrade.node.run.steps.kubelet import SwapBinary
from tests.builders.planned_run import WORK, planned
from tests.doubles.node import supervise


def test_our_own_mistake_turns_the_run_back(monkeypatch: pytest.MonkeyPatch) -> None:
    node, plan = planned()
    monkeypatch.setattr(SwapBinary, "do", lambda *_: 1 // 0)

    report = supervise(node, plan)

    assert report is not None
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INTERNAL_ERROR)
    assert report.message == "unexpected ZeroDivisionError: integer division or modulo by zero"
    assert report.restarted == 0


def test_a_damaged_journal_stops_everything() -> None:
    node, plan = planned()
    NodeRun(node=node.ports, plan=plan, store=node.journal).carry_out()
    node.journal.data = b"x" + node.journal.data
    known = len(node.calls.effects)

    with pytest.raises(Inconsistent, match="record 1 is damaged"):
        NodeRun(node=node.ports, plan=plan, store=node.journal).carry_out()
    assert node.calls.effects[known:] == []


def test_each_step_has_its_bound_while_it_is_carried_out() -> None:
    node, plan = planned()
    allowed: list[float] = []

    NodeRun(node=node.ports, plan=plan, store=node.journal, allow=allowed.append).carry_out()

    bounds = [seconds_without_progress(step, plan.limits) for step in WORK]
    assert [b for b in allowed if b != longest_silence(plan.limits)] == [
        b for b in bounds if b != longest_silence(plan.limits)
    ]
    assert allowed[-1] == longest_silence(plan.limits), "the end takes its time"


def test_every_decision_is_preceded_by_a_heartbeat() -> None:
    node, plan = planned()
    beats: list[int] = []

    NodeRun(
        node=node.ports, plan=plan, store=node.journal, heartbeat=lambda: beats.append(len(node.calls.effects))
    ).carry_out()

    assert len(beats) == len(WORK) + 1
    assert beats == sorted(set(beats))
