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
from nodeupgrade.api.values import BootIdentity, MonotonicSeconds
from nodeupgrade.api.wording import counted
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.kubelet_down_budget import kubelet_down_seconds, seconds_left
from nodeupgrade.node.verification.hidden_containers import Obstacle

UNDO_RETRY_SECONDS = 2.0
LATER_UNDO_RETRY_SECONDS = 15.0
"""Pause before an undo is retried once it has failed ``undo_attempts`` times."""
IN_VAIN_SECONDS = 300.0
"""How long an undo has to fail before the run ends as Degraded, or is retried once a minute where no kubelet runs."""
LAST_UNDO_RETRY_SECONDS = 60.0
HOLD_SECONDS = 5.0
"""Seconds until a runtime that is not fit, or a kubelet that is not quiet, is examined again."""
PLAN_LASTS_SECONDS = 900.0
"""How long a plan may be begun. An agent hands it over within three minutes; the kubelet's unit wants the executor as
well, so that whoever restarts the kubelet of a node whose agent was lost starts it, hours later.
"""
UNREADABLE_SECONDS, READ_AGAIN_SECONDS = 30.0, 1.0
"""How long a run that is committed waits until it can be read whether the rescue script has begun."""
_OVERRIDABLE = frozenset({
    Reason.RUNTIME_LOST_PODS, Reason.SHIELD_REFUSED_CALL, Reason.KUBELET_PORT_TAKEN,
    Reason.STEP_FAILED, Reason.INTERNAL_ERROR,
})  # fmt: skip
"""Obstacles that a person may decide to ignore. The last two: what the runtime shows could not be read."""
_TURNED_BACK = frozenset({Mark.UNDOING, Mark.UNDONE, Mark.UNDO_FAILED})
_REPEATED = frozenset({Mark.UNDOING, Mark.UNDO_FAILED, Mark.HELD})
"""What the journal ends with when an undo is about to be repeated; the first: the executor ended during it."""
_STEPS = tuple(Step)
_LEFT_BY_RESCUE = frozenset({Step.CONFIRM_BINARIES, Step.HOLD_PACKAGE, Step.ARM_DEAD_MAN, Step.STOP_KUBELET})
"""Steps that the rescue script does not undo: the fence, and those that matter to no kubelet."""
_NEVER_GIVEN_UP = frozenset(_STEPS[_STEPS.index(Step.STOP_KUBELET) : _STEPS.index(Step.START_KUBELET) + 1])
"""Steps whose undo is retried without end. Until the last of them is undone no kubelet runs, or one that was turned
back, which must not run without a shield; and what stands in the way may pass: somebody else's mistake, a full disk.
"""
_MAY_STAY = frozenset({Step.HOLD_PACKAGE})
"""Steps that do not keep a node out of service if they cannot be undone; the report says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The state of the node that a decision depends on, besides the journal."""

    monotonic: float  # seconds since boot
    boot: BootIdentity  # the present boot
    abort: bool = False  # whether a rollback was requested
    planned_boot: BootIdentity | None = None  # the boot that the plan was made in, if the plan records it
    planned_at: MonotonicSeconds | None = None  # likewise when, in seconds since that boot
    # how far the rescue script has come with the run; it starts if the executor does not run for a while
    rescue: Rescue = Rescue.NONE
    obstacle: Obstacle | None = None  # forbids the next undo; only determined where one of the needs_… says so
    go_on: bool = False  # whether a person requested to ignore an obstacle
    end: bool = False  # whether a person requested the end of a run whose rollback fails, hangs or is held


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
class Wait:
    """Do nothing; decide again in ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRollback:
    """Do nothing; decide again in ``seconds``, since ``undo`` would do harm now."""

    undo: Undo
    obstacle: Obstacle
    seconds: float = HOLD_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run is over."""

    outcome: Outcome
    reason: Reason
    why: str


RunDecision: TypeAlias = Do | Undo | Wait | HoldRollback | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackCause:
    """Why a run rolls back."""

    reason: Reason
    why: str


def decide(journal: Journal, seen: Observation, limits: Limits) -> RunDecision:
    """Decide what comes next.

    * The end of the last step is the commit: the run ends as Upgraded, unless the rescue script is restoring OLD. If
      that cannot be read, it is read again for a while; then the script counts as begun, as it does before the commit.
    * Any failure, abort, reboot or spent budget starts a rollback, and a rollback never turns forward again. The budget
      is spent when the time without a kubelet and the time that a rollback takes add up to it.
    * A rollback undoes the last step, in order of definition, that may have happened and is not undone. Where that
      fails it is tried again, without end as long as the old kubelet does not run, unless a person ends the run. Once
      it runs, or where it still does, the run ends as Degraded after minutes, unless nothing depends on the step.
    * While the runtime does not show everything that still runs, no hash is restored and no old kubelet is started,
      however long that takes: the hashes would be lost, and every pod created a second time.
    * While another process has a port that the old kubelet cannot do without, it is not started either.
    * While the old kubelet wants to end what ran before, the shield stays up, for as long as the plan says: the old
      state is back, so the kubelet has another reason.
    * Forward, the first step that is not done is next.
    """
    if (last := journal.last) is not None and journal.mark(COMMIT) is Mark.DONE and seen.rescue is Rescue.UNREADABLE:
        rest = last.monotonic + UNREADABLE_SECONDS - seen.monotonic
        if last.boot == seen.boot and rest > 0:
            return Wait(seconds=min(rest, READ_AGAIN_SECONDS))
    if committed(journal, seen.rescue):
        return Finish(outcome=Outcome.UPGRADED, reason=Reason.SUCCEEDED, why="every check held for the settle period")
    if (cause := rollback_cause(journal, seen, limits)) is not None:
        return _roll_back(journal, seen, limits, cause)
    left = seconds_left(journal, seen.boot, seen.monotonic, limits)
    return Do(step=journal.next_step, seconds=inf if left is None else left)


def committed(journal: Journal, rescue: Rescue) -> bool:
    """Report whether the run is past the point of no return.

    The rescue script does not touch a committed run. If it has begun nevertheless, hashes and files may be of both
    eras, or OLD; only a rollback is certain to end with one of them.
    """
    return journal.mark(COMMIT) is Mark.DONE and rescue is Rescue.NONE


def needs_runtime(decision: RunDecision) -> bool:
    """Report whether a decision is only valid if the runtime shows everything that still runs."""
    return isinstance(decision, Undo) and decision.step in {Step.REWRITE_HASHES, Step.STOP_KUBELET}


def needs_ports(decision: RunDecision) -> bool:
    """Report whether a decision is only valid if the old kubelet gets its ports, since it starts it."""
    return isinstance(decision, Undo) and decision.step is Step.STOP_KUBELET


def needs_quiet(decision: RunDecision) -> bool:
    """Report whether a decision is only valid if the kubelet leaves everything alone, since it lowers the shield."""
    return isinstance(decision, Undo) and decision.step is Step.ARM_DEAD_MAN


def rollback_cause(journal: Journal, seen: Observation, limits: Limits) -> RollbackCause | None:
    """Return the first cause of a rollback, if there is one."""
    for record in journal.records:
        if record.step is None:
            continue
        if record.mark is Mark.FAILED:
            return RollbackCause(reason=record.known_reason, why=record.error or f"{record.step} failed")
        if record.mark in _TURNED_BACK:
            return RollbackCause(reason=record.known_reason, why=record.error or "the run was rolled back")
    if not journal.records and seen.planned_boot not in {None, seen.boot}:
        why = "the plan was made for another boot, or another node, so its containers do not run here"
        return RollbackCause(reason=Reason.NODE_REBOOTED, why=why)
    if not journal.records and seen.planned_at is not None and seen.monotonic - seen.planned_at > PLAN_LASTS_SECONDS:
        why = f"the plan was made {(seen.monotonic - seen.planned_at) / 60:.0f} minutes ago, and nobody has begun it"
        return RollbackCause(reason=Reason.INVENTORY_CHANGED, why=why)
    if journal.records and journal.records[-1].boot != seen.boot:
        why = "the node was rebooted during the run, which ended every container"
        return RollbackCause(reason=Reason.NODE_REBOOTED, why=why)
    if seen.rescue is not Rescue.NONE:
        why = "the executor did not run, and the rescue script began to bring the old kubelet back"
        return RollbackCause(reason=Reason.EXECUTOR_LOST, why=why)
    if seen.abort:
        return RollbackCause(reason=Reason.ABORTED, why="an abort was requested")
    left = seconds_left(journal, seen.boot, seen.monotonic, limits)
    if left is not None and left < 0:
        down = kubelet_down_seconds(journal, seen.boot, seen.monotonic) or 0.0
        return RollbackCause(
            reason=Reason.KUBELET_DOWN_BUDGET_EXCEEDED,
            why=f"the kubelet has been down for {down:.1f} s and rolling back takes up to "
            f"{limits.kubelet_down - left - down:.1f} s, but its budget is {limits.kubelet_down:.0f} s",
        )
    return None


def _roll_back(journal: Journal, seen: Observation, limits: Limits, cause: RollbackCause) -> RunDecision:
    standing = [step for step in _STEPS if journal.mark(step) not in {None, Mark.UNDONE}]
    if seen.rescue is Rescue.DONE:  # what the old kubelet wrote since must stay
        standing = [step for step in standing if step in _LEFT_BY_RESCUE]
    given_up = [s for s in standing if s in _MAY_STAY and journal.count(s, Mark.UNDO_FAILED) >= limits.undo_attempts]
    standing = [step for step in standing if step not in given_up]
    if not standing:
        left = "".join(f"; undoing {step} failed{_last_failure(journal, step)}" for step in given_up)
        return Finish(outcome=Outcome.ROLLED_BACK, reason=cause.reason, why=cause.why + left)
    step = standing[-1]
    failures = journal.count(step, Mark.UNDO_FAILED)
    in_vain = _failing_seconds(journal, step, seen.boot, seen.monotonic) >= IN_VAIN_SECONDS
    fails, last = failures >= limits.undo_attempts, journal.records[-1]
    is_repeated = (last.step, last.mark in _REPEATED) == (step, True)
    if (seen.end and (fails or is_repeated)) or (fails and in_vain and step not in _NEVER_GIVEN_UP):
        why = f"{_setback(journal, step, limits)}; rolling back because {cause.why}"
        return Finish(outcome=Outcome.DEGRADED, reason=Reason.ROLLBACK_FAILED, why=why)
    if last.mark is Mark.UNDO_FAILED and last.boot == seen.boot:
        later = LAST_UNDO_RETRY_SECONDS if in_vain else LATER_UNDO_RETRY_SECONDS
        pause = UNDO_RETRY_SECONDS if failures < limits.undo_attempts else later
        rest = last.monotonic + pause - seen.monotonic
        if rest > 0:
            return Wait(seconds=rest)
    undo = Undo(step=step, reason=cause.reason, why=cause.why)
    if seen.obstacle is None or _is_overridden(seen.obstacle.reason, journal, seen, limits):
        return undo
    return HoldRollback(undo=undo, obstacle=seen.obstacle)


def _is_overridden(obstacle: Reason, journal: Journal, seen: Observation, limits: Limits) -> bool:
    """Report whether an obstacle is ignored: by a person, or because the shield was held for as long as it may be."""
    shield_held = (Mark.HELD, Reason.SHIELD_REFUSED_CALL.value, seen.boot)
    held = (r.monotonic for r in journal.records if (r.mark, r.reason, r.boot) == shield_held)
    if obstacle is Reason.SHIELD_REFUSED_CALL and seen.monotonic - next(held, seen.monotonic) >= limits.shield_hold:
        return True
    return seen.go_on and obstacle in _OVERRIDABLE


def undone_in_vain(journal: Journal, boot: BootIdentity, monotonic: float) -> str:
    """Return which undo has failed for so long that a person is needed, though it is tried again; empty if none."""
    last = journal.records[-1] if journal.records else None
    if last is None or last.step not in _NEVER_GIVEN_UP or last.mark is not Mark.UNDO_FAILED:
        return ""
    in_vain = _failing_seconds(journal, last.step, boot, monotonic) >= IN_VAIN_SECONDS
    return _failures(journal, last.step) if in_vain else ""


def _failing_seconds(journal: Journal, step: Step, boot: BootIdentity, monotonic: float) -> float:
    """Return for how long an undo has been failing in this boot."""
    failed = (step, Mark.UNDO_FAILED, boot)
    return monotonic - next((r.monotonic for r in journal.records if (r.step, r.mark, r.boot) == failed), monotonic)


def _setback(journal: Journal, step: Step, limits: Limits) -> str:
    """Return why the run ends although a step is not undone."""
    failures, last = journal.count(step, Mark.UNDO_FAILED), journal.records[-1]
    if last.mark is Mark.HELD and failures < limits.undo_attempts:
        return f"undoing {step} was held because {last.error}"
    return _failures(journal, step) if failures else f"undoing {step} was interrupted"


def _failures(journal: Journal, step: Step) -> str:
    times = counted(journal.count(step, Mark.UNDO_FAILED), "time")
    return f"undoing {step} failed {times}{_last_failure(journal, step)}"


def _last_failure(journal: Journal, step: Step) -> str:
    errors = [record.error for record in journal.records if record.step is step and record.mark is Mark.UNDO_FAILED]
    return f", most recently because {errors[-1]}" if errors and errors[-1] else ""
