"""decide() alone, against a world of five facts, with Hypothesis choosing what goes wrong and when.

The world knows what each step really does, and a mutant of the world has two steps' effects exchanged: that is what a
wrong order of steps would do. Such a mutant must be caught, or these rules prove nothing.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.state_machine import (
    Do,
    Finish,
    HoldRollback,
    Observation,
    RunDecision,
    Undo,
    Wait,
    decide,
    needs_runtime,
)
from nodeupgrade.node.verification.hidden_containers import Obstacle

OLD, NEW, MIXED = "old", "new", "mixed"
LIMITS = Limits(kubelet_down=30.0, settle=1.0, undo_attempts=3)
LOST = Obstacle(reason=Reason.RUNTIME_LOST_PODS, why="it shows nothing")
ENOUGH_DECISIONS = 200
WAYS = ["works", "works", "works", "fails", "fails half-way", "dies before", "dies half-way", "dies after"]


@dataclass(frozen=True)
class Facts:
    """What a kubelet depends on; ``running`` is the era of the kubelet that runs, if one does.

    ``shown`` is whether the runtime shows what still runs.
    """

    stored: str = OLD
    served: str = OLD
    program: str = OLD
    running: str | None = OLD
    fenced: bool = False
    shown: bool = True


def effect(step: Step, world: Facts) -> Facts:
    """What taking a step does."""
    match step:
        case Step.STOP_KUBELET:
            return replace(world, running=None, fenced=True)
        case Step.REWRITE_HASHES:
            return replace(world, stored=NEW)
        case Step.RESTART_RUNTIME:
            return replace(world, served=world.stored)
        case Step.SWAP_BINARY:
            return replace(world, program=NEW)
        case Step.START_KUBELET:
            return replace(world, running=world.program, fenced=False)
        case _:
            return world


def reversal(step: Step, world: Facts) -> Facts:
    """What undoing it does."""
    match step:
        case Step.STOP_KUBELET:
            return replace(world, running=world.program, fenced=False)
        case Step.REWRITE_HASHES:
            return replace(world, stored=OLD, served=OLD)
        case Step.SWAP_BINARY:
            return replace(world, program=OLD)
        case Step.START_KUBELET:
            return replace(world, running=None, fenced=True)
        case _:
            return world


def half(before: Facts, after: Facts) -> Facts:
    """A step that was struck in the middle: hashes are written one by one, all else happens or does not."""
    return replace(before, stored=MIXED) if before.stored != after.stored else before


class Run(RuleBasedStateMachine):
    """One run of one node. ``meaning`` says whose effect each step has."""

    meaning: ClassVar[dict[Step, Step]] = {step: step for step in Step}

    def __init__(self) -> None:
        super().__init__()
        self.world = Facts()
        self.journal = Journal()
        self.now = 100.0
        self.boot = 1
        self.abort = False
        self.turned_back = False
        self.finished: Finish | None = None

    # --- what happens ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.finished is None)
    @rule(way=st.sampled_from(WAYS), seconds=st.sampled_from([0.01, 0.3, 2.0, 9.0]))
    def decide_and_act(self, way: str, seconds: float) -> None:
        self.now += seconds
        match self._decide():
            case Do(step=step):
                self._take(step, way)
            case Undo(step=step):
                self._undo(step, way)
            case Wait(seconds=pause):
                assert pause > 0
                self.now += pause
            case HoldRollback(undo=undo, seconds=pause):
                assert self.world.fenced or self.world.running is None, "it waits and a kubelet runs"
                self._announce(undo.step)
                self.now += pause
            case Finish() as finish:
                self.finished = finish

    @precondition(lambda self: self.world.running is None)
    @rule()
    def runtime_comes_back_empty(self) -> None:
        self.world = replace(self.world, shown=False)

    @rule()
    def somebody_repairs_it(self) -> None:
        self.world = replace(self.world, shown=True)

    @rule(seconds=st.sampled_from([1.0, 12.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def somebody_asks_to_abort(self) -> None:
        self.abort = True

    @rule()
    def node_reboots(self) -> None:
        """Whatever ran is gone. The executor holds the kubelet back while it has something to undo."""
        self.boot += 1
        self.now = 20.0
        self.world = replace(self.world, shown=True)
        held = self.journal.mark(Step.STOP_KUBELET) not in {None, Mark.UNDONE}
        if held and self.finished is None and self.journal.mark(COMMIT) is not Mark.DONE:
            self.world = replace(self.world, running=None, fenced=True)
        else:
            self.world = replace(self.world, running=self.world.program, served=self.world.stored, fenced=False)

    # --- what must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def a_kubelet_sees_its_own_era_only(self) -> None:
        if self.world.running is not None:
            assert (self.world.stored, self.world.served) == (self.world.running, self.world.running)

    @invariant()
    def what_is_over_stays_over(self) -> None:
        if self.finished is not None:
            assert self._decide() == self.finished

    def teardown(self) -> None:
        """When nothing goes wrong any more it ends, as exactly OLD or NEW, or says that a human is needed."""
        self.somebody_repairs_it()
        for _ in range(ENOUGH_DECISIONS):
            if self.finished is not None:
                break
            self.decide_and_act("works", 0.01)
            self.a_kubelet_sees_its_own_era_only()
        assert self.finished is not None
        match self.finished.outcome:
            case Outcome.UPGRADED:
                assert self.world == Facts(stored=NEW, served=NEW, program=NEW, running=NEW)
            case Outcome.ROLLED_BACK:
                assert self.world == Facts()
            case Outcome.DEGRADED:
                failed = [self.journal.count(step, Mark.UNDO_FAILED) for step in Step]
                assert max(failed) >= LIMITS.undo_attempts

    # -----------------------------------------------------------------------------------------------------------------

    def _decide(self) -> RunDecision:
        seen = Observation(monotonic=self.now, boot=BootIdentity(str(self.boot)), abort=self.abort)
        decision = decide(self.journal, seen, LIMITS)
        if needs_runtime(decision) and not self.world.shown:
            decision = decide(self.journal, replace(seen, obstacle=LOST), LIMITS)
        marks = {record.mark for record in self.journal.records}
        self.turned_back |= bool(marks & {Mark.FAILED, Mark.UNDOING, Mark.UNDONE, Mark.UNDO_FAILED})
        assert not (self.turned_back and isinstance(decision, Do)), "forward after backward"
        return decision

    def _take(self, step: Step, way: str) -> None:
        self._record(step, Mark.DOING)
        after = effect(self.meaning[step], self.world)
        if way == "dies before":
            return
        self.world = half(self.world, after) if "half-way" in way else after
        if way.startswith("dies"):
            return
        self._record(step, Mark.FAILED if way.startswith("fails") else Mark.DONE)

    def _undo(self, step: Step, way: str) -> None:
        assert self.world.shown or step not in {Step.REWRITE_HASHES, Step.STOP_KUBELET}, "undone into nothing"
        self._announce(step)
        after = reversal(self.meaning[step], self.world)
        if way == "dies before":
            return
        self.world = half(self.world, after) if "half-way" in way else after
        if way.startswith("dies"):
            return
        self._record(step, Mark.UNDO_FAILED if way.startswith("fails") else Mark.UNDONE)

    def _announce(self, step: Step) -> None:
        if self.journal.mark(step) is not Mark.UNDOING:
            self._record(step, Mark.UNDOING)

    def _record(self, step: Step, mark: Mark) -> None:
        record = Record(
            seq=len(self.journal.records) + 1,
            mark=mark,
            step=step,
            boot=BootIdentity(str(self.boot)),
            at="",
            monotonic=self.now,
            payload={} if mark is Mark.DOING else None,
        )
        self.journal = self.journal.with_record(record)


CHECKED = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)


def test_whatever_happens_to_a_run_it_ends_as_old_or_new() -> None:
    run_state_machine_as_test(Run, settings=CHECKED)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Step.STOP_KUBELET, Step.REWRITE_HASHES),
        (Step.STOP_KUBELET, Step.RESTART_RUNTIME),
        (Step.STOP_KUBELET, Step.SWAP_BINARY),
        (Step.REWRITE_HASHES, Step.RESTART_RUNTIME),
        (Step.REWRITE_HASHES, Step.START_KUBELET),
        (Step.RESTART_RUNTIME, Step.START_KUBELET),
        (Step.SWAP_BINARY, Step.START_KUBELET),
    ],
)
def test_another_order_of_steps_is_caught(one: Step, other: Step) -> None:
    class Mutant(Run):
        meaning: ClassVar = {**Run.meaning, one: other, other: one}

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Mutant, settings=settings(CHECKED, report_multiple_bugs=False))
