"""The kubelet-down budget holds for the whole time without a kubelet, whatever the steps take."""

from itertools import product

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Journal, Mark, Record
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.kubelet_down_budget import KUBELET_START_SECONDS, SAFETY, undo_seconds
from nodeupgrade.node.run.state_machine import Do, Finish, Observation, Undo, decide

BOOT = BootIdentity("only")
STEPS = tuple(Step)
DURATIONS = (0.01, 0.4, 3.0, 8.0)
BUDGETS = (5.0, 10.0, 30.0, 60.0)
ROUNDING = 0.2
SLOW = (Step.STOP_KUBELET, Step.REWRITE_HASHES, Step.RESTART_RUNTIME, Step.SWAP_BINARY, Step.START_KUBELET)


class Run:
    """Lives by decide(). Each step takes as long as it is told to; undoing it takes as long as doing it did."""

    def __init__(self, takes: dict[Step, float], budget: float) -> None:
        self.takes, self.limits = takes, Limits(kubelet_down=budget)
        self.journal, self.now = Journal(), 100.0
        self.last = Step.CONFIRM_BINARIES
        self.down_from: float | None = None
        self.down = 0.0

    def live(self) -> Finish:
        while True:
            match decide(self.journal, Observation(monotonic=self.now, boot=BOOT), self.limits):
                case Do(step=step, seconds=seconds):
                    self._do(step, seconds)
                case Undo(step=step, reason=reason, why=why):
                    self._undo(step, reason, why)
                case Finish() as finish:
                    return finish
                case other:
                    raise AssertionError(other)

    def _do(self, step: Step, seconds: float) -> None:
        self._write(step, Mark.DOING)
        self.last = step
        if step is Step.STOP_KUBELET:
            self.down_from = self.now
        needs = self.takes.get(step, 0.01)
        self.now += min(needs, seconds) if step is Step.START_KUBELET else needs
        failed = step is Step.START_KUBELET and needs > seconds
        if step is Step.START_KUBELET and not failed:
            self._up()
        self._write(step, Mark.FAILED if failed else Mark.DONE)

    def _undo(self, step: Step, reason: Reason, why: str) -> None:
        self._write(step, Mark.UNDOING, reason=reason, why=why)
        restarted = self.journal.first(Step.RESTART_RUNTIME, Mark.DOING) is not None
        costs = {
            Step.START_KUBELET: self.takes[Step.STOP_KUBELET],
            Step.STOP_KUBELET: KUBELET_START_SECONDS,
            Step.RESTART_RUNTIME: 0.0,
            Step.REWRITE_HASHES: self.takes[Step.REWRITE_HASHES] + restarted * self.takes[Step.RESTART_RUNTIME],
        }
        begun = self.journal.mark(step) is not None
        self.now += costs.get(step, self.takes.get(step, 0.01)) if begun else 0.0
        if step is Step.STOP_KUBELET:
            self._up()
        self._write(step, Mark.UNDONE)

    def _up(self) -> None:
        if self.down_from is not None:
            self.down, self.down_from = self.down + self.now - self.down_from, None

    def _write(self, step: Step, mark: Mark, *, reason: Reason | None = None, why: str | None = None) -> None:
        seq = len(self.journal.records) + 1
        record = Record(seq=seq, step=step, mark=mark, boot=BOOT, at="", monotonic=self.now, reason=reason, error=why)
        self.journal = self.journal.with_record(record)


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_time_without_a_kubelet_stays_within_the_budget(budget: float) -> None:
    """Exhaustive over five steps that take four different times each.

    Only the last step, if it is slower than anything before, can take the run by surprise: it, and undoing it.
    """
    outcomes = set()
    for durations in product(DURATIONS, repeat=len(SLOW)):
        run = Run(dict(zip(SLOW, durations, strict=True)), budget)
        finish = run.live()
        outcomes.add(finish.reason)
        foreseeable = run.last in {Step.START_KUBELET, Step.VERIFY, Step.LOWER_SHIELD} or run.last not in SLOW
        surprise = 0.0 if foreseeable else 2 * run.takes[run.last]
        assert run.down <= budget + surprise + ROUNDING, (durations, finish)
        if finish.reason is Reason.KUBELET_DOWN_BUDGET_EXCEEDED:
            assert f"its budget is {budget:.0f} s" in finish.why

    assert outcomes >= {Reason.KUBELET_DOWN_BUDGET_EXCEEDED}
    assert (Reason.SUCCEEDED in outcomes) == (budget > KUBELET_START_SECONDS)


@pytest.mark.parametrize("budget", [1.0, KUBELET_START_SECONDS, undo_seconds(Journal(), STEPS) - 0.1])
def test_a_budget_that_is_too_small_for_the_way_back_touches_nothing(budget: float) -> None:
    run = Run(dict.fromkeys(SLOW, 0.01), budget)

    finish = run.live()

    assert finish.reason is Reason.KUBELET_DOWN_BUDGET_EXCEEDED
    assert run.journal.mark(Step.STOP_KUBELET) is None


def test_what_was_slow_once_is_expected_to_be_slow_again() -> None:
    quick, slow = (Run(dict.fromkeys(SLOW, 0.01) | {Step.REWRITE_HASHES: takes}, 60.0) for takes in (0.01, 4.0))
    costs = []
    for run in (quick, slow):
        run.live()
        costs.append(undo_seconds(run.journal, [Step.REWRITE_HASHES]))

    assert costs[1] - costs[0] == pytest.approx(SAFETY * 4.0 - 0.5)
    assert [undo_seconds(quick.journal, STEPS[:n]) for n in range(len(STEPS))] == sorted(
        undo_seconds(quick.journal, STEPS[:n]) for n in range(len(STEPS))
    )
