"""The state machine of one node's run. Every transition is decided here and nowhere else.

It does not know what the steps do. It keeps this invariant, wherever a run is interrupted: *while a kubelet runs, every
stored hash is of that kubelet's era*. The invariant holds because a rollback is the exact reverse of the upgrade, and
because a step that was only announced counts as one that may have happened.
"""

from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.journal.rescue_state import Rescue
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.budget import undo_seconds
from nodeupgrade.node.verification.completeness import Obstacle

UNDO_RETRY_SECONDS = 2.0
LATER_SECONDS = 15.0
"""Pause before an undo that is never given up is tried again, once it has failed often."""
HOLD_SECONDS = 5.0
"""Seconds until a runtime that is not fit, or a kubelet that is not quiet, is examined again."""
MAY_GO_ON = frozenset({Reason.RUNTIME_LOST_PODS, Reason.SHIELD_REFUSED_CALL})
"""What a person may decide to ignore."""
_TURNED_BACK = frozenset({Mark.UNDOING, Mark.UNDONE, Mark.UNDO_FAILED})
_STEPS = tuple(Step)
_HELD = Reason.SHIELD_REFUSED_CALL.value
_LEFT_BY_RESCUE = frozenset({Step.CONFIRM_BINARIES, Step.HOLD_PACKAGE, Step.ARM_DEAD_MAN, Step.STOP_KUBELET})
"""What the rescue script does not undo: the fence, and what matters to no kubelet."""
_MUST_GO = frozenset({Step.START_KUBELET})
"""What is tried to be undone for as long as it takes: a kubelet that was turned back must not run without a shield."""
_MAY_STAY = frozenset({Step.HOLD_PACKAGE})
"""What is no reason to keep a node out of service if it cannot be undone; it is said then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the next decision depends on, besides the journal."""

    monotonic: float  # seconds since boot
    boot: BootIdentity  # the present boot
    abort: bool = False  # whether a rollback was requested
    planned: BootIdentity | None = None  # the boot that the plan was made in, if the plan records it
    # how far the rescue script has come with the run; it starts if the executor does not run for a while
    rescue: Rescue = Rescue.NONE
    lack: Obstacle | None = None  # what forbids the next undo; only determined where needs_runtime() or needs_quiet()
    go_on: bool = False  # whether a person requested to go on all the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """Carry out a step."""

    step: Step
    seconds: float = inf  # how long the step may wait; after that, a rollback would exceed the budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Reverse a step."""

    step: Step
    reason: Reason
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAgain:
    """Do nothing; decide again in ``seconds``."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRollback:
    """Leave everything as it is and decide again in ``seconds``: ``undo`` would do harm now."""

    undo: Undo
    lack: Obstacle
    seconds: float = HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over."""

    outcome: Outcome
    reason: Reason
    why: str


Decision: TypeAlias = Do | Undo | AskAgain | HoldRollback | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackCause:
    """Why a run rolls back."""

    reason: Reason
    why: str


def decide(journal: Journal, seen: Observation, limits: Limits) -> Decision:
    """Decide what comes next.

    * The end of the last step is the commit: the run ends as Upgraded, unless the rescue script has begun to restore
      OLD.
    * Any failure, abort, reboot or spent budget starts a rollback, and a rollback never turns forward again. The budget
      is spent when the time without a kubelet and the time that a rollback takes add up to it.
    * A rollback undoes the last step, in order of definition, that may have happened and is not undone. It ends as
      Degraded where that fails again and again, unless nothing depends on the step. Only the new kubelet is not left
      running: as long as it cannot be stopped, the shield stays up and the run goes on, unless a person wants its end.
    * While the runtime does not show everything that still runs, no hash is restored and no old kubelet is started,
      however long that takes: hashes would be restored into nothing, and every pod created a second time.
    * While the old kubelet wants to end what ran before, the shield stays up, for as long as the plan says: the old
      state is back, so what it wants then has a cause of its own.
    * Forward, the first step that is not done is next.
    """
    if committed(journal, seen.rescue):
        return Finish(outcome=Outcome.UPGRADED, reason=Reason.SUCCEEDED, why="every check held for the settle period")
    setback = setback_of(journal, seen, limits)
    if setback is not None:
        return _backward(journal, seen, limits, setback)
    left = seconds_left(journal, seen, limits)
    return Do(step=next_step(journal), seconds=inf if left is None else left)


def committed(journal: Journal, rescue: Rescue) -> bool:
    """Report whether the run is past the point of no return.

    The rescue script does not touch a committed run. If it has begun nevertheless, hashes and files may be of both
    eras, or OLD; only a rollback is certain to end with one of them.
    """
    return journal.mark(COMMIT) is Mark.DONE and rescue is Rescue.NONE


def needs_runtime(decision: Decision) -> bool:
    """Report whether a decision is only valid if the runtime shows everything that still runs."""
    return isinstance(decision, Undo) and decision.step in {Step.REWRITE_HASHES, Step.STOP_KUBELET}


def needs_quiet(decision: Decision) -> bool:
    """Report whether a decision is only valid if the kubelet leaves everything alone, since it lowers the shield."""
    return isinstance(decision, Undo) and decision.step is Step.ARM_DEAD_MAN


def next_step(journal: Journal) -> Step:
    """Return the first step that is not done."""
    return next(step for step in _STEPS if journal.mark(step) is not Mark.DONE)


def setback_of(journal: Journal, seen: Observation, limits: Limits) -> RollbackCause | None:
    """Return the first cause of a rollback, if there is one."""
    for record in journal.records:
        if record.step is None:
            continue
        if record.mark is Mark.FAILED:
            return RollbackCause(reason=record.known_reason, why=record.error or f"{record.step} failed")
        if record.mark in _TURNED_BACK:
            return RollbackCause(reason=record.known_reason, why=record.error or "the run was turned back")
    if not journal.records and seen.planned not in {None, seen.boot}:
        return RollbackCause(
            reason=Reason.NODE_REBOOTED,
            why="the plan was made for another boot, or another node: what it says about containers is not true here",
        )
    if journal.records and journal.records[-1].boot != seen.boot:
        return RollbackCause(
            reason=Reason.NODE_REBOOTED,
            why="the node was rebooted during the run, which ended every container",
        )
    if seen.rescue is not Rescue.NONE:
        return RollbackCause(
            reason=Reason.EXECUTOR_LOST,
            why="the executor did not run, and the rescue script began to bring the old kubelet back",
        )
    if seen.abort:
        return RollbackCause(reason=Reason.ABORTED, why="the run was asked to abort")
    left = seconds_left(journal, seen, limits)
    if left is not None and left < 0:
        down = kubelet_down_seconds(journal, seen) or 0.0
        return RollbackCause(
            reason=Reason.KUBELET_DOWN_BUDGET_EXCEEDED,
            why=f"the kubelet has been down for {down:.1f} s and going back takes up to "
            f"{limits.kubelet_down - left - down:.1f} s, its budget is {limits.kubelet_down:.0f} s",
        )
    return None


def seconds_left(journal: Journal, seen: Observation, limits: Limits) -> float | None:
    """Return how many seconds of the kubelet-down budget the next step may use, with a reserve for undoing all steps.

    The kubelet is not stopped unless the budget covers undoing all steps up to its start.

    ``None`` while the budget does not apply: before the kubelet is stopped, and once the new one is healthy.
    """
    step, stop, start = (_STEPS.index(s) for s in (next_step(journal), Step.STOP_KUBELET, Step.START_KUBELET))
    if not stop <= step <= start:
        return None
    down = kubelet_down_seconds(journal, seen) or 0.0
    return limits.kubelet_down - down - undo_seconds(journal, _STEPS[: (start if step == stop else step) + 1])


def kubelet_down_seconds(journal: Journal, seen: Observation) -> float | None:
    """Return the seconds since the kubelet began to stop; ``None`` while it runs (or the new one is healthy)."""
    stopping = journal.first(Step.STOP_KUBELET, Mark.DOING)
    if stopping is None or journal.mark(Step.START_KUBELET) is Mark.DONE or stopping.boot != seen.boot:
        return None
    return max(0.0, seen.monotonic - stopping.monotonic)


def _backward(journal: Journal, seen: Observation, limits: Limits, setback: RollbackCause) -> Decision:
    standing = [step for step in _STEPS if journal.mark(step) not in {None, Mark.UNDONE}]
    if seen.rescue is Rescue.DONE:  # what the old kubelet wrote since must stay
        standing = [step for step in standing if step in _LEFT_BY_RESCUE]
    given_up = [s for s in standing if s in _MAY_STAY and journal.count(s, Mark.UNDO_FAILED) >= limits.undo_attempts]
    standing = [step for step in standing if step not in given_up]
    if not standing:
        left = "".join(f"; undoing {step} failed{_last_failure(journal, step)}" for step in given_up)
        return Finish(outcome=Outcome.ROLLED_BACK, reason=setback.reason, why=setback.why + left)
    step = standing[-1]
    failures = journal.count(step, Mark.UNDO_FAILED)
    if failures >= limits.undo_attempts and (step not in _MUST_GO or seen.go_on):
        return Finish(
            outcome=Outcome.DEGRADED,
            reason=Reason.ROLLBACK_FAILED,
            why=f"undoing {step} failed {failures} times{_last_failure(journal, step)}; "
            f"going back because {setback.why}",
        )
    last = journal.records[-1]
    if last.mark is Mark.UNDO_FAILED and last.boot == seen.boot:
        pause = UNDO_RETRY_SECONDS if failures < limits.undo_attempts else LATER_SECONDS
        rest = last.monotonic + pause - seen.monotonic
        if rest > 0:
            return AskAgain(seconds=rest, why=f"undoing {step} failed; trying again")
    undo = Undo(step=step, reason=setback.reason, why=setback.why)
    may_go_on = seen.go_on or held_for_long(journal, seen, limits)
    if seen.lack is not None and not (may_go_on and seen.lack.reason in MAY_GO_ON):
        return HoldRollback(undo=undo, lack=seen.lack)
    return undo


def held_for_long(journal: Journal, seen: Observation, limits: Limits) -> bool:
    """Report whether the shield was held up for the old kubelet for as long as it may be."""
    if seen.lack is None or seen.lack.reason is not Reason.SHIELD_REFUSED_CALL:
        return False
    held = (r.monotonic for r in journal.records if (r.mark, r.reason, r.boot) == (Mark.HELD, _HELD, seen.boot))
    return seen.monotonic - next(held, seen.monotonic) >= limits.shield_hold


def _last_failure(journal: Journal, step: Step) -> str:
    said = [record.error for record in journal.records if record.step is step and record.mark is Mark.UNDO_FAILED]
    return f", at last because {said[-1]}" if said and said[-1] else ""
