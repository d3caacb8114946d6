"""What every step owes: done twice is done once, undone twice is undone once, and undo mirrors do."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.run.progress_limit import longest_silence, seconds_without_progress
from nodeupgrade.node.run.run import NodeRun
from nodeupgrade.node.run.steps.kubelet import SwapBinary
from nodeupgrade.node.run.steps.order import STEPS
from tests.doubles.node import SimulatedNode, manifest, plan_for, pod_json, supervise
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27, STATE
from tests.doubles.node.planning import BACKUP

WORK = list(Step)


def planned() -> tuple[SimulatedNode, RunPlan]:
    node = SimulatedNode(
        version="v1.26.15",
        pods=[pod_json("web", "nginx", "log")],
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=(FLAG_REMOVED_IN_1_27,),
    )
    return node, plan_for(node, "v1.33.13", limits=Limits(settle=2.0))


def state(node: SimulatedNode) -> dict[str, object]:
    """What a step may change and has to put back; the runtime serves what is stored after its next restart."""
    return {
        "disk": {path: data for path, data in node.disk.items() if path not in {BACKUP, STATE}},
        "hashes": {container: stored.hashes for container, stored in node.runtime.containers.items()},
        "fenced": node.services.unit.fenced,
        "arguments": node.services.unit.arguments,
        "timers": set(node.services.active),
        "kubelet": node.kubelet.process and str(node.kubelet.process.version),
    }


@pytest.mark.parametrize("step", WORK)
def test_a_step_keeps_its_promises(step: Step) -> None:
    node, plan = planned()
    for earlier in WORK[: WORK.index(step)]:
        STEPS[earlier].do(node.ports, plan, STEPS[earlier].prepare(node.ports, plan))
    actions = STEPS[step]
    before = state(node)

    payload = actions.prepare(node.ports, plan)
    assert state(node) == before, "prepare only reads"

    actions.do(node.ports, plan, payload)
    done = state(node)
    actions.do(node.ports, plan, payload)
    assert state(node) == done, "done twice is done once"

    actions.undo(node.ports, plan, payload)
    assert state(node) == before, "undo mirrors do"
    actions.undo(node.ports, plan, payload)
    assert state(node) == before, "undone twice is undone once"
    assert node.kubelet.violations == []


@pytest.mark.parametrize("step", WORK)
def test_a_step_that_never_began_can_be_undone(step: Step) -> None:
    """A crash between the announcement and the effect looks like this."""
    node, plan = planned()
    for earlier in WORK[: WORK.index(step)]:
        STEPS[earlier].do(node.ports, plan, STEPS[earlier].prepare(node.ports, plan))
    before = state(node)

    STEPS[step].undo(node.ports, plan, STEPS[step].prepare(node.ports, plan))

    assert state(node) == before


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
