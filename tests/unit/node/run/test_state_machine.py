"""The state machine on one screen: what happened so far, in words, and what comes next."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity, MonotonicSeconds
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.state_machine import (
    LAST_UNDO_RETRY_SECONDS,
    UNDO_RETRY_SECONDS,
    Do,
    Finish,
    HoldRollback,
    Observation,
    RunDecision,
    Undo,
    Wait,
    decide,
    needs_runtime,
    undone_in_vain,
)
from nodeupgrade.node.verification.hidden_containers import Obstacle

LIMITS = Limits(kubelet_down=30, undo_attempts=2)
FIRST, SECOND = BootIdentity("first"), BootIdentity("second")
STEPS = list(Step)


def told(story: str) -> Journal:
    """A journal from words like ``stop-kubelet:done``; ``..X`` stands for every step up to X being done.

    Records are one second apart.
    """
    journal = Journal()
    for word in story.split():
        if word.startswith(".."):
            marks = [(step, Mark.DONE) for step in STEPS[: STEPS.index(Step(word[2:])) + 1]]
        else:
            name, _, mark = word.partition(":")
            marks = [(Step(name), Mark(mark))]
        for step, mark in marks:
            if mark is Mark.DONE:
                journal = written(journal, step, Mark.DOING)
            journal = written(journal, step, mark)
    return journal


def written(
    journal: Journal,
    step: Step,
    mark: Mark,
    *,
    boot: BootIdentity = FIRST,
    at: float | None = None,
    error: str | None = None,
    reason: Reason | None = None,
) -> Journal:
    seq = len(journal.records) + 1
    moment = float(seq) if at is None else at
    return journal.with_record(
        Record(seq=seq, step=step, mark=mark, boot=boot, at="", monotonic=moment, error=error, reason=reason)
    )


def said(decision: RunDecision) -> str:
    match decision:
        case Do(step=step):
            return f"do {step}"
        case Undo(step=step):
            return f"undo {step}"
        case Wait():
            return "wait"
        case HoldRollback(undo=undo):
            return f"hold {undo.step}"
        case Finish(outcome=outcome, reason=reason):
            return f"finish {outcome} {reason}"


@pytest.mark.parametrize(
    ("story", "next_"),
    [
        # Forward: the first step that is not done; one that was announced is done again.
        ("", "do confirm-binaries"),
        ("confirm-binaries:doing", "do confirm-binaries"),
        ("..confirm-binaries", "do hold-package"),
        ("..restart-runtime", "do read-back"),
        ("..restart-runtime read-back:doing", "do read-back"),
        ("..start-kubelet", "do await-node-status"),
        ("..await-node-status", "do verify"),
        ("..verify", "do lower-shield"),
        # The commit.
        ("..lower-shield", "finish Upgraded Succeeded"),
        # Backward: the last step that may have happened, the failed one included.
        ("confirm-binaries:failed", "undo confirm-binaries"),
        ("..stop-kubelet confirm-inventory:failed", "undo confirm-inventory"),
        ("..stop-kubelet confirm-inventory:failed confirm-inventory:undone", "undo stop-kubelet"),
        ("..start-kubelet verify:doing verify:failed verify:undoing", "undo verify"),
        ("..start-kubelet verify:failed verify:undone", "undo start-kubelet"),
        ("..start-kubelet verify:failed verify:undone start-kubelet:undoing", "undo start-kubelet"),
        ("..rewrite-hashes rewrite-hashes:undoing rewrite-hashes:undone", "undo pin-static-pods"),
        ("confirm-binaries:failed confirm-binaries:undone", "finish RolledBack StepFailed"),
        # An undo that fails is tried again after a rest, then given up.
        ("..stop-kubelet stop-kubelet:undo-failed", "wait"),
        ("..stop-kubelet stop-kubelet:undo-failed stop-kubelet:undoing", "undo stop-kubelet"),
        (
            "..stop-kubelet stop-kubelet:undo-failed stop-kubelet:undo-failed",
            "wait",
        ),
        # A hold that cannot be taken back keeps no node out of service.
        ("..hold-package arm-dead-man:failed arm-dead-man:undone hold-package:undo-failed", "wait"),
        (
            "..hold-package arm-dead-man:failed arm-dead-man:undone hold-package:undo-failed hold-package:undo-failed",
            "wait",
        ),
        (
            f"..confirm-binaries hold-package:failed {'hold-package:undo-failed ' * 2}confirm-binaries:undone",
            "finish RolledBack StepFailed",
        ),
    ],
)
def test_what_comes_next(story: str, next_: str) -> None:
    journal = told(story)
    now = Observation(monotonic=float(len(journal.records)), boot=FIRST)

    assert said(decide(journal, now, LIMITS)) == next_


@pytest.mark.parametrize(
    ("story", "seen", "next_"),
    [
        ("..read-back", Observation(monotonic=20, boot=FIRST, abort=True), "undo read-back"),
        ("..lower-shield", Observation(monotonic=99, boot=FIRST, abort=True), "finish Upgraded Succeeded"),
        # A rescue that began after the commit has made a mixture of what was one: there is no way but back.
        ("..lower-shield", Observation(monotonic=99, boot=FIRST, rescue=Rescue.BEGUN), "undo lower-shield"),
        ("..lower-shield", Observation(monotonic=99, boot=FIRST, rescue=Rescue.DONE), "undo stop-kubelet"),
        # A word that cannot be read for a moment is no reason to go back from there; one that never can, is.
        ("..lower-shield", Observation(monotonic=31, boot=FIRST, rescue=Rescue.UNREADABLE), "wait"),
        ("..lower-shield", Observation(monotonic=99, boot=FIRST, rescue=Rescue.UNREADABLE), "undo lower-shield"),
        ("..lower-shield", Observation(monotonic=31, boot=SECOND, rescue=Rescue.UNREADABLE), "undo lower-shield"),
        ("..read-back", Observation(monotonic=20, boot=FIRST, rescue=Rescue.UNREADABLE), "undo read-back"),
        ("", Observation(monotonic=0, boot=FIRST, abort=True), "finish RolledBack Aborted"),
        ("..read-back", Observation(monotonic=20, boot=SECOND), "undo read-back"),
        ("..start-kubelet", Observation(monotonic=3, boot=SECOND), "undo start-kubelet"),
        ("..lower-shield", Observation(monotonic=3, boot=SECOND), "finish Upgraded Succeeded"),
        # stop-kubelet was announced at second 7 and the budget is 30 seconds. Going back: starting a kubelet (5),
        # manifests, hashes and the runtime, which took a second each (2 each), and arguments (0.1).
        ("..raise-shield", Observation(monotonic=25.9, boot=FIRST), "do swap-files"),
        ("..raise-shield", Observation(monotonic=26.0, boot=FIRST), "undo raise-shield"),
        ("..start-kubelet", Observation(monotonic=500, boot=FIRST), "do await-node-status"),
        # A plan for another boot, or another node, touches nothing; once begun, the journal knows the boot.
        ("", Observation(monotonic=0, boot=SECOND, planned_boot=FIRST), "finish RolledBack NodeRebooted"),
        ("", Observation(monotonic=0, boot=FIRST, planned_boot=FIRST), "do confirm-binaries"),
        ("..arm-dead-man", Observation(monotonic=9, boot=FIRST, planned_boot=SECOND), "do stop-kubelet"),
        # Likewise one that was made too long ago: nobody knows what changed since, such as the Node's labels.
        ("", Observation(monotonic=999, boot=FIRST, planned_at=MonotonicSeconds(100.0)), "do confirm-binaries"),
        (
            "",
            Observation(monotonic=1001, boot=FIRST, planned_at=MonotonicSeconds(100.0)),
            "finish RolledBack InventoryChanged",
        ),
        (
            "..arm-dead-man",
            Observation(monotonic=1001, boot=FIRST, planned_at=MonotonicSeconds(0.0)),
            "do stop-kubelet",
        ),
        # The rescue script has begun: back, over everything. It is through: only the kubelet has to be started.
        ("..read-back", Observation(monotonic=20, boot=FIRST, rescue=Rescue.BEGUN), "undo read-back"),
        ("..read-back", Observation(monotonic=20, boot=FIRST, rescue=Rescue.DONE), "undo stop-kubelet"),
        (
            "..read-back stop-kubelet:undone",
            Observation(monotonic=9, boot=FIRST, rescue=Rescue.DONE),
            "undo arm-dead-man",
        ),
        (
            "..read-back stop-kubelet:undone arm-dead-man:undone",
            Observation(monotonic=9, boot=FIRST, rescue=Rescue.DONE),
            "undo hold-package",
        ),
        ("..arm-dead-man", Observation(monotonic=500, boot=FIRST), "do stop-kubelet"),
    ],
)
def test_what_the_world_says(story: str, seen: Observation, next_: str) -> None:
    assert said(decide(told(story), seen, LIMITS)) == next_


def test_the_reason_of_a_setback_is_the_first_one() -> None:
    """What went wrong later, on the way back, is another story."""
    journal = told("..stop-kubelet")
    journal = written(journal, Step.STOP_KUBELET, Mark.UNDOING, error="asked to", reason=Reason.ABORTED)
    journal = written(journal, Step.STOP_KUBELET, Mark.UNDO_FAILED, error="it broke", reason=Reason.STEP_FAILED)

    decision = decide(journal, Observation(monotonic=99, boot=FIRST), LIMITS)

    assert isinstance(decision, Undo)
    assert (decision.reason, decision.why) == (Reason.ABORTED, "asked to")


def test_the_rest_after_a_failed_undo_is_measured_on_the_same_boot_only() -> None:
    journal = told("..stop-kubelet stop-kubelet:undo-failed")
    failed = journal.records[-1].monotonic

    rest = decide(journal, Observation(monotonic=failed + 0.5, boot=FIRST), LIMITS)

    assert isinstance(rest, Wait)
    assert rest.seconds == UNDO_RETRY_SECONDS - 0.5
    assert said(decide(journal, Observation(monotonic=failed + 2.5, boot=FIRST), LIMITS)) == "undo stop-kubelet"
    assert said(decide(journal, Observation(monotonic=0.1, boot=SECOND), LIMITS)) == "undo stop-kubelet"


@pytest.mark.parametrize(("step", "later"), [("arm-dead-man", "finish Degraded"), ("set-arguments", "undo")])
def test_an_undo_is_given_up_after_minutes_where_a_kubelet_runs_or_when_a_person_says_so(step: str, later: str) -> None:
    journal = told(f"..{step} {step}:undo-failed {step}:undo-failed")
    first = journal.records[-2].monotonic
    still, over = Observation(monotonic=first + 299, boot=FIRST), Observation(monotonic=first + 300, boot=FIRST)

    assert said(decide(journal, still, LIMITS)) == f"undo {step}"
    assert said(decide(journal, replace(over, boot=SECOND), LIMITS)) == f"undo {step}"
    assert said(decide(journal, over, LIMITS)).startswith(later)
    assert said(decide(journal, replace(still, end=True), LIMITS)) == "finish Degraded RollbackFailed"


@pytest.mark.parametrize("step", ["arm-dead-man", "stop-kubelet", "rewrite-hashes"])
@pytest.mark.parametrize(
    ("again", "why"),
    [
        ("{0}:undoing", "undoing {0} was interrupted; "),
        ("{0}:undoing {0}:undo-failed", "undoing {0} failed 1 time; "),
        ("{0}:undoing {0}:undo-failed {0}:undoing", "undoing {0} failed 1 time; "),
    ],
)
def test_a_person_may_end_a_run_whenever_an_undo_is_repeated(step: str, again: str, why: str) -> None:
    """Also one during which the executor ends each time, which is never recorded as a failure."""
    journal = told(f"..{step} {step}:failed {again.format(step)}")
    seen = Observation(monotonic=journal.records[-1].monotonic + 60.0, boot=FIRST)

    assert said(decide(journal, seen, LIMITS)) == f"undo {step}"
    ended = decide(journal, replace(seen, end=True), LIMITS)
    assert said(ended) == "finish Degraded RollbackFailed"
    assert isinstance(ended, Finish)
    assert ended.why.startswith(why.format(step))


@pytest.mark.parametrize("story", ["..stop-kubelet", "..verify verify:failed", "..verify verify:failed verify:undone"])
def test_nobody_ends_a_run_that_goes_on(story: str) -> None:
    """The wish may be from earlier; what it was about has passed."""
    seen = Observation(monotonic=15.0, boot=FIRST, end=True)

    assert not said(decide(told(story), seen, LIMITS)).startswith("finish")


@pytest.mark.parametrize("step", [Step.REWRITE_HASHES, Step.STOP_KUBELET])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_whoever_overrules_a_hold_gets_the_old_kubelet_whatever_failed_before(step: Step, failures: int) -> None:
    """The message of the hold says that the kubelet is started nevertheless, not that the run ends without one."""
    failed = f"{step}:undoing {step}:undo-failed " * failures
    journal = told(f"..{step} {step}:failed {failed}{step}:undoing {step}:held")
    seen = Observation(monotonic=500.0, boot=FIRST, go_on=True)

    assert said(decide(journal, seen, LIMITS)) == f"undo {step}"  # before it looks
    assert said(decide(journal, replace(seen, obstacle=LOST), LIMITS)) == f"undo {step}"
    assert said(decide(journal, replace(seen, go_on=False, end=True), LIMITS)).startswith("finish Degraded")
    ended = decide(journal, replace(seen, go_on=False, end=True), LIMITS)
    assert isinstance(ended, Finish)
    assert ("was held" in ended.why) is (failures < LIMITS.undo_attempts)
    journal = written(journal, step, Mark.UNDO_FAILED, at=500.0)
    assert not said(decide(journal, replace(seen, monotonic=900.0), LIMITS)).startswith("finish")


def test_where_nothing_runs_an_undo_that_fails_for_minutes_is_tried_once_a_minute() -> None:
    journal = told("..set-arguments set-arguments:undo-failed set-arguments:undo-failed")
    failed = journal.records[-1].monotonic + 400
    journal = written(journal, Step.SET_ARGUMENTS, Mark.UNDO_FAILED, at=failed)

    rest = decide(journal, Observation(monotonic=failed + 1, boot=FIRST), LIMITS)

    assert isinstance(rest, Wait)
    assert rest.seconds == LAST_UNDO_RETRY_SECONDS - 1
    assert undone_in_vain(journal, FIRST, failed + 1).startswith("undoing set-arguments failed 3 times")
    assert undone_in_vain(journal, FIRST, journal.records[-3].monotonic + 299) == ""


@dataclass
class Life:
    """Drives decide() the way the engine does, with a fate for each decision."""

    journal: Journal = field(default_factory=Journal)
    boot: int = 1
    now: float = 0.0
    abort: bool = False
    turned_back: bool = False

    def live(self, fate: str) -> Finish | None:
        seen = Observation(monotonic=self.now, boot=BootIdentity(f"boot-{self.boot}"), abort=self.abort)
        decision = decide(self.journal, seen, LIMITS)
        self.check(decision)
        match decision:
            case Do(step=step):
                if self.journal.payload(step) is None and Mark.DOING not in self._marks(step):
                    self._write(step, Mark.DOING)
                if fate in {"works", "fails"}:
                    self._write(step, Mark.DONE if fate == "works" else Mark.FAILED)
            case Undo(step=step):
                self._write(step, Mark.UNDOING)
                if fate in {"works", "fails"}:
                    self._write(step, Mark.UNDONE if fate == "works" else Mark.UNDO_FAILED)
            case Wait(seconds=seconds):
                self.now += seconds
            case Finish():
                return decision
        self._suffer(fate)
        return None

    def check(self, decision: RunDecision) -> None:
        assert not (self.turned_back and isinstance(decision, Do)), "backward turned forward"
        if isinstance(decision, Undo):
            self.turned_back = True
            later = STEPS[STEPS.index(decision.step) + 1 :]
            assert all(self.is_back(step) for step in later), "undone out of order"
        if self.journal.mark(COMMIT) is Mark.DONE:
            assert isinstance(decision, Finish)
            assert decision.outcome is Outcome.UPGRADED

    def is_back(self, step: Step) -> bool:
        """Whether it is undone, as far as it has to be: a hold that dpkg does not take back may stay."""
        given_up = self.journal.count(step, Mark.UNDO_FAILED) >= LIMITS.undo_attempts
        return self.journal.mark(step) in {None, Mark.UNDONE} or (step is Step.HOLD_PACKAGE and given_up)

    def _suffer(self, fate: str) -> None:
        match fate:
            case "reboot":
                self.boot, self.now = self.boot + 1, 0.0
            case "abort":
                self.abort = True
            case "slow":
                self.now += LIMITS.kubelet_down / 2
            case _:
                self.now += 0.01

    def _marks(self, step: Step) -> set[Mark]:
        return {record.mark for record in self.journal.records if record.step is step}

    def _write(self, step: Step, mark: Mark) -> None:
        self.journal = written(self.journal, step, mark, boot=BootIdentity(f"boot-{self.boot}"), at=self.now)


FATES = st.sampled_from(["works", "works", "works", "works", "works", "fails", "killed", "reboot", "abort", "slow"])


@given(st.lists(FATES, max_size=60))
@example(["works", "fails", "fails", "works", "fails"])
def test_every_life_ends_and_never_turns_forward_again(fates: list[str]) -> None:
    """Once fate leaves it alone, a run ends within as many decisions as it has steps, each way."""
    life = Life()
    end = next((end for fate in fates if (end := life.live(fate))), None)

    for _ in range(3 * len(STEPS)):
        end = end or life.live("works")

    assert end is not None
    if end.outcome is Outcome.ROLLED_BACK:
        assert all(life.is_back(step) for step in STEPS)
    assert (end.outcome is Outcome.UPGRADED) == (life.journal.mark(COMMIT) is Mark.DONE)


def test_a_rollback_goes_on_however_long_it_takes_until_the_old_kubelet_runs() -> None:
    """Any other step that cannot be undone ends the run, all but the hold, which no container depends on."""
    for step in STEPS:
        journal, at = told(f"..{step} {step}:failed"), 500.0
        for _ in range(100):
            decision = decide(journal, Observation(monotonic=at, boot=FIRST), LIMITS)
            if isinstance(decision, Wait):
                at += decision.seconds
            elif isinstance(decision, Undo) and decision.step is step:
                journal = written(journal, step, Mark.UNDO_FAILED, boot=FIRST, at=at)
        ended = decide(journal, Observation(monotonic=at + 60, boot=FIRST), LIMITS)
        given_up = isinstance(ended, Finish) and ended.outcome is Outcome.DEGRADED
        without = STEPS[STEPS.index(Step.STOP_KUBELET) : STEPS.index(Step.START_KUBELET) + 1]
        assert given_up == (step not in {*without, Step.HOLD_PACKAGE})
        assert bool(undone_in_vain(journal, FIRST, at)) == (step in without)


LOST = Obstacle(reason=Reason.RUNTIME_LOST_PODS, why="it shows nothing")
SILENT = Obstacle(reason=Reason.RUNTIME_DID_NOT_ANSWER, why="it says nothing")
UNREAD = Obstacle(reason=Reason.STEP_FAILED, why="what it shows cannot be read")
MISTAKE = Obstacle(reason=Reason.INTERNAL_ERROR, why="unexpected ZeroDivisionError")


@pytest.mark.parametrize("step", [Step.REWRITE_HASHES, Step.STOP_KUBELET])
@pytest.mark.parametrize(
    ("obstacle", "go_on", "next_"),
    [
        (None, False, "undo"),
        (LOST, False, "hold"),
        (LOST, True, "undo"),
        (SILENT, False, "hold"),
        (SILENT, True, "hold"),
        (UNREAD, False, "hold"),
        (UNREAD, True, "undo"),
        (MISTAKE, True, "undo"),
    ],
)
def test_nothing_is_put_back_into_a_runtime_that_lacks_what_runs(
    step: Step, obstacle: Obstacle | None, go_on: bool, next_: str
) -> None:
    journal = told(f"..{step} {step}:failed")
    for _ in range(LIMITS.undo_attempts + 1):  # however often; waiting is no failure
        seen = Observation(monotonic=500.0, boot=FIRST, obstacle=obstacle, go_on=go_on)
        assert needs_runtime(decide(journal, replace(seen, obstacle=None), LIMITS))
        assert said(decide(journal, seen, LIMITS)) == f"{next_} {step}"
        journal = written(journal, step, Mark.HELD)
