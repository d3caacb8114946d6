"""An undo that hangs: its executor is killed after minutes and started again, which may go on without end."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, parse
from nodeupgrade.node.rescue.timeouts import hung_seconds
from nodeupgrade.node.run.state_machine import IN_VAIN_SECONDS, undone_in_vain
from tests.doubles.node import Behaviour, Crash
from tests.scenario.node_run.test_lost_pods import later
from tests.scenario.node_run.test_node_run import LIMITS, Story, story

HUNG = hung_seconds(LIMITS)


def hanging(step: Step, *, times: int, seconds: float = HUNG) -> tuple[Story, list[None]]:
    """Return a run that is rolled back, and whose executor is killed as often as it undoes a step; and how often."""
    it, killed = story(), list[None]()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    def hangs() -> None:
        if len(killed) < times:
            it.node.calls.failpoints[at(step, When.UNDOING)] = hangs
            killed.append(None)
            raise Crash(frozen=seconds)

    it.node.calls.failpoints[at(step, When.UNDOING)] = hangs
    return it, killed


def journal_of(it: Story) -> Journal:
    return parse(it.node.journal.data)[0]


@pytest.mark.parametrize("step", [Step.STOP_KUBELET, Step.REWRITE_HASHES, Step.SWAP_BINARY])
@pytest.mark.parametrize("seconds", [1.0, HUNG])
def test_a_person_can_end_it(step: Step, seconds: float) -> None:
    it, killed = hanging(step, times=1000, seconds=seconds)
    it.node.ports = replace(it.node.ports, end=lambda: len(killed) >= 3)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.DEGRADED, Reason.ROLLBACK_FAILED)
    assert len(killed) == 3


def test_it_is_told_how_often_and_for_how_long_it_hung() -> None:
    it, killed = hanging(Step.SWAP_BINARY, times=3)
    seen, look = list[str](), it.node.ports.end

    def end() -> bool:
        clock = it.node.ports.clock
        seen.append(undone_in_vain(journal_of(it), clock.boot(), clock.monotonic()))
        return look()

    it.node.ports = replace(it.node.ports, end=end)

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()
    failed = [r.error for r in journal_of(it).records if r.mark is Mark.UNDO_FAILED]
    assert failed == [f"it was not over after {HUNG + 1} s, when the executor was started again"] * len(killed)
    assert HUNG > IN_VAIN_SECONDS
    assert f"undoing swap-binary failed 2 times, most recently because {failed[0]}" in seen


@pytest.mark.parametrize("step", [Step.REWRITE_HASHES, Step.STOP_KUBELET])
def test_it_is_told_as_well_where_the_undo_was_held_before(step: Step) -> None:
    it, killed = hanging(step, times=2)
    trouble, error = it.node.runtime.troubles, StepFailed("cannot read the runtime's list of containers")
    before = {Step.REWRITE_HASHES: Step.READ_BACK, Step.STOP_KUBELET: Step.CONFIRM_INVENTORY}[step]
    it.node.calls.before(f"journal.append {before} undone", lambda: setattr(trouble, "unlisted", error))
    later(it, 60.0, lambda: setattr(trouble, "unlisted", None))

    report = it.tell()

    records = journal_of(it).records
    assert [r.step for r in records if r.mark is Mark.HELD][:1] == [step]
    assert (report.outcome, len(killed)) == (Outcome.ROLLED_BACK, 2)
    assert [r.step for r in records if r.mark is Mark.UNDO_FAILED] == [step] * len(killed)
    assert it.nothing_restarted()


def test_it_is_told_as_well_where_the_look_before_it_took_long() -> None:
    """The executor is killed so long after it began to look at the runtime, which is before the undo is recorded."""
    it, killed = hanging(Step.STOP_KUBELET, times=2, seconds=HUNG - 20)

    assert it.tell().outcome is Outcome.ROLLED_BACK

    records = journal_of(it).records
    assert [r.step for r in records if r.mark is Mark.UNDO_FAILED] == [Step.STOP_KUBELET] * len(killed)


def test_an_executor_that_is_killed_in_between_is_no_failure() -> None:
    it, killed = hanging(Step.SWAP_BINARY, times=3, seconds=20.0)

    report = it.tell()

    assert (report.outcome, len(killed)) == (Outcome.ROLLED_BACK, 3)
    assert not [r for r in journal_of(it).records if r.mark is Mark.UNDO_FAILED]


def test_where_the_old_kubelet_runs_it_ends_by_itself() -> None:
    it, killed = hanging(Step.ARM_DEAD_MAN, times=1000)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.DEGRADED, Reason.ROLLBACK_FAILED)
    assert len(killed) == LIMITS.undo_attempts
    assert it.kubelet == "v1.30.14"
