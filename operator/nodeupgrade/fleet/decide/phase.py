"""The phase, reason and message of a rollout as a whole, and whether it makes progress."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import Counts, RolloutPhase, Slot, UpgradeStatus
from nodeupgrade.api.upgrade.strategy import OnFailure
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.budgets import QUEUED, StartDecision
from nodeupgrade.fleet.decide.counting import Tally
from nodeupgrade.fleet.decide.ledger import overdue
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.health.checks import describe_end

_PHASES = {
    Reason.PAUSED: RolloutPhase.PAUSED,
    Reason.QUEUED: RolloutPhase.QUEUED,
    Reason.WAITING_FOR_WINDOW: RolloutPhase.WAITING_FOR_WINDOW,
    Reason.AWAITING_APPROVAL: RolloutPhase.AWAITING_APPROVAL,
    Reason.SOAKING: RolloutPhase.SOAKING,
    Reason.HELD_BY_ANNOTATION: RolloutPhase.PENDING,
    Reason.HELD_BY_POD: RolloutPhase.PENDING,
}

PLANNED_WAITS = frozenset(
    {
        RolloutPhase.QUEUED,
        RolloutPhase.WAITING_FOR_WINDOW,
        RolloutPhase.AWAITING_APPROVAL,
        RolloutPhase.SOAKING,
        RolloutPhase.PAUSED,
        RolloutPhase.PLANNED,
    }
)
"""Phases in which a rollout waits for a time or a person, as it was asked to; each names what it waits for."""

STALLED_AFTER = timedelta(minutes=15)
"""How long after the deadline of a node, at which it is asked to roll back, a person is needed."""

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """The state of a rollout; unless it is stalled, over or ready, it is progressing."""

    phase: RolloutPhase
    reason: Reason
    message: str
    stalled: bool = False  # whether a person is needed
    over: bool = False  # whether it has ended
    ready: bool = False  # whether the requested work is done: the upgrade, or only the plan under ``action: Plan``


def state_of(rollout: RolloutView, decision: StartDecision, tally: Tally) -> RolloutState:
    """Return the state of the rollout, given which nodes may start or why none may."""
    counts, done = tally.counts, _done(rollout, tally)
    state = _state(rollout, decision, tally, done)
    queued = state.phase is RolloutPhase.QUEUED and not rollout.ledger.rivals  # behind a run that nobody looks after
    if state.stalled or state.over or state.ready or (state.phase in PLANNED_WAITS and not queued):
        return state
    silent = silence(rollout.upgrade.status, rollout.spec, counts, rollout.now)
    if silent is None:
        return state
    message = sentence(Reason.NO_PROGRESS, f"{silent.detail}: {_first_wait(rollout) or state.message}")
    return RolloutState(phase=RolloutPhase.STALLED, reason=Reason.NO_PROGRESS, message=message, stalled=True)


def _first_wait(rollout: RolloutView) -> str:
    """Return what the first node in flight waits for, if that is known."""
    known = rollout.ledger.waiting_for
    waits = (known[name] for name in rollout.flying if name in known)
    return next((f"node {wait.node}: {wait.message}" for wait in waits), "")


def _state(rollout: RolloutView, decision: StartDecision, tally: Tally, done: str) -> RolloutState:
    counts = tally.counts
    if rollout.upgrade.deleting:
        message = f"{done}, {counts.in_progress} in flight"
        return RolloutState(phase=RolloutPhase.RUNNING, reason=Reason.DELETING, message=message)
    if rollout.flying:
        return _late(rollout, decision, done) or _flying(rollout, counts, done)
    if rollout.spec.action is RolloutAction.ABORT:
        message = sentence(Reason.ABORTED, f"{done}; the rollout was aborted")
        return _ended(RolloutPhase.ABORTED, Reason.ABORTED, message)
    if name := rollout.ended_by:
        message = f"{done}; {describe_end(name)}; see the condition Healthy."
        return _ended(RolloutPhase.ABORTED, Reason.ABORTED, message)
    if not counts.total:
        message = sentence(Reason.NO_MATCHING_NODES, "no node matches spec.nodes")
        return RolloutState(phase=RolloutPhase.STALLED, reason=Reason.NO_MATCHING_NODES, message=message, stalled=True)
    if decision.reason in QUEUED:
        return _held_back(decision)
    if not rollout.planned and rollout.may_claim:
        message = f"{counted(counts.total, 'node')} selected, {len(rollout.unclaimed)} of them still to be claimed"
        return RolloutState(phase=RolloutPhase.PLANNING, reason=Reason.PROGRESSING, message=message)
    if rollout.spec.action is RolloutAction.PLAN:
        return _planning(rollout, decision, tally)
    return _running(rollout, decision, counts, done)


def _held_back(decision: StartDecision) -> RolloutState:
    """Return the state of a rollout whose next nodes have to wait."""
    phase = RolloutPhase.STALLED if decision.stalls else _PHASES.get(decision.reason, RolloutPhase.RUNNING)
    return RolloutState(phase=phase, reason=decision.reason, message=decision.message, stalled=decision.stalls)


def _ended(phase: RolloutPhase, reason: Reason, message: str) -> RolloutState:
    """Return the state of a rollout that ended without success; Stalled makes tools stop waiting."""
    return RolloutState(phase=phase, reason=reason, message=message, stalled=True, over=True)


def _late(rollout: RolloutView, decision: StartDecision, done: str) -> RolloutState | None:
    """Return the state if a person is needed although nodes are in flight, else None.

    This is so once a timeout of the rollout has passed, and once all nodes in flight are long overdue.
    """
    if rollout.spec.action is RolloutAction.PLAN:
        return None
    names = ", ".join(rollout.flying[:_NAMED]) + (" …" if len(rollout.flying) > _NAMED else "")
    if decision.reason is Reason.TIMED_OUT:
        return _held_back(replace(decision, message=f"{done}; in flight: {names}; {decision.message}"))
    lost = overdue(rollout.ledger.flying_tasks, rollout.now, STALLED_AFTER)
    if not lost or len(lost) < len(rollout.flying) or decision.nodes:
        return None
    message = f"{done}; {lost[0].message}{f' (in flight: {names})' if len(lost) > 1 else ''}"
    return RolloutState(phase=RolloutPhase.STALLED, reason=Reason.NODE_OVERDUE, message=message, stalled=True)


def _flying(rollout: RolloutView, counts: Counts, done: str) -> RolloutState:
    if rollout.spec.action is RolloutAction.PLAN:
        message = f"{_looked_at(rollout, counts)}, {counts.in_progress} in flight"
        return RolloutState(phase=RolloutPhase.PLANNING, reason=Reason.PROGRESSING, message=message)
    message = f"{done}, {counts.in_progress} in flight{_refused(rollout)}"
    return RolloutState(phase=RolloutPhase.RUNNING, reason=Reason.PROGRESSING, message=message)


def _refused(rollout: RolloutView) -> str:
    """Return why nodes are refused that need a person, with the first as an example: most often they have one cause."""
    refused = [
        member
        for member in rollout.members.values()
        if (member.place is Place.REFUSED and not member.blocks) or member.outcome is Verdict.REFUSED
    ]
    return f"; {counted(len(refused), 'node')} refused: {refused[0].node}: {refused[0].message}" if refused else ""


def _planning(rollout: RolloutView, decision: StartDecision, tally: Tally) -> RolloutState:
    """Return the state under ``action: Plan``, which upgrades nothing."""
    counts = tally.counts
    if any(member.place is Place.PENDING for member in rollout.members.values()):
        if decision.reason is Reason.PAUSED:
            return _held_back(decision)
        message = _looked_at(rollout, counts)
        return RolloutState(phase=RolloutPhase.PLANNING, reason=Reason.PROGRESSING, message=message)
    objecting = [s for s in rollout.members.values() if s.place in {Place.REFUSED, Place.FINISHED}]
    if objecting:
        because = f"{counted(len(objecting), 'node')} would be refused ({objecting[0].node}: {objecting[0].reason})"
        message = sentence(Reason.HAZARDS_FOUND, because)
        return RolloutState(phase=RolloutPhase.PLANNED, reason=Reason.HAZARDS_FOUND, message=message, stalled=True)
    nodes = counted(counts.total - counts.skipped, "node")
    message = f"nothing objects to the upgrade of {nodes}{tally.warning}"
    return RolloutState(phase=RolloutPhase.PLANNED, reason=Reason.PLAN_READY, message=message, ready=True)


def _running(rollout: RolloutView, decision: StartDecision, counts: Counts, done: str) -> RolloutState:
    aborts = rollout.spec.strategy.on_threshold is OnFailure.ABORT
    left = counts.pending + sum(member.again is not None for member in rollout.members.values())
    if left and decision.reason is Reason.FAILURE_THRESHOLD_REACHED and aborts:
        failed = counted(counts.all_failed, "node")
        message = f"{done}; {failed} failed, at which strategy.onThreshold ends the rollout; see status.failures."
        return _ended(RolloutPhase.ABORTED, Reason.ABORTED, message)
    if left and decision.reason is Reason.PAUSED:
        paused = (
            f"{done}; {decision.message}"
            if rollout.upgrade.paused_by_annotation
            else sentence(Reason.PAUSED, f"{done}; paused")
        )
        return RolloutState(phase=RolloutPhase.PAUSED, reason=Reason.PAUSED, message=paused)
    if counts.pending or (left and decision.stalls):
        message = decision.message or f"{done}, {counts.pending} to go"
        return _held_back(StartDecision(reason=decision.reason, message=message))
    if blocking := [s for s in rollout.members.values() if s.place is Place.REFUSED]:
        return _blocked(blocking)
    return _concluded(rollout, counts, done)


def _blocked(blocking: list[NodeState]) -> RolloutState:
    """Return the state when only refused nodes are left: wait for those that may pass, stall on the others."""
    lasting = [member for member in blocking if not member.blocks]
    first = (lasting or blocking)[0]
    reason = first.reason if len({s.reason for s in lasting or blocking}) == 1 else Reason.NODES_REFUSED
    more = f" ({counted(len(blocking) - 1, 'more node')} refused)" if len(blocking) > 1 else ""
    return RolloutState(
        phase=RolloutPhase.STALLED if lasting else RolloutPhase.PENDING,
        reason=reason,
        message=first.message + more,
        stalled=bool(lasting),
    )


def _concluded(rollout: RolloutView, counts: Counts, done: str) -> RolloutState:
    """Return the final state, once no node is left to upgrade."""
    members = tuple(rollout.members.values())
    unsuccessful = [(s.reason, s.message) for s in members if s.outcome not in {None, Verdict.SUCCEEDED}]
    unsuccessful += [(known_reason(each.reason) or Reason.FAILED, each.message) for each in rollout.departed]
    if number := len(unsuccessful):
        others = Reason.NODES_FAILED if counts.all_failed else Reason.NODES_REFUSED
        others = Reason.ROLLBACK_FAILED if counts.rollback_failed else others
        more = f" ({counted(number - 1, 'more node')} did not succeed)" if number > 1 else ""
        alike = {reason for reason, _ in unsuccessful}
        only = next(iter(alike)) if len(alike) == 1 else others
        return _ended(RolloutPhase.FAILED, only, unsuccessful[0][1] + more)
    started = rollout.upgrade.status.started_at is not None
    unproven = rollout.health_objection or rollout.health_awaited if started else None
    if unproven is not None:
        return _held_back(StartDecision(reason=unproven.reason, message=f"{done}; {unproven.message}"))
    reason = Reason.COMPLETED_WITH_SKIPS if counts.skipped else Reason.ALL_NODES_UPGRADED
    if counts.skipped == counts.total and {member.reason for member in members} == {Reason.ALREADY_AT_TARGET}:
        reason = Reason.ALREADY_AT_TARGET
    return RolloutState(phase=RolloutPhase.SUCCEEDED, reason=reason, message=done, over=True, ready=True)


def _done(rollout: RolloutView, tally: Tally) -> str:
    counts = tally.counts
    reached = counts.succeeded + tally.skips.get(Reason.ALREADY_AT_TARGET, 0)
    passed_over = counts.succeeded + counts.skipped - reached
    runs = "runs" if counts.total == 1 else "run"
    done = f"{reached} of {counted(counts.total, 'node')} {runs} {rollout.spec.version}"
    skipped = f", {passed_over} skipped" if passed_over else ""
    return f"{done}{skipped}{tally.warning}"


def _looked_at(rollout: RolloutView, counts: Counts) -> str:
    checked = sum(member.place in {Place.CHECKED, Place.FINISHED} for member in rollout.members.values())
    return f"{checked} of {counted(counts.total, 'node')} looked at"


def last_progress(
    before: UpgradeStatus, phase: RolloutPhase, slots: tuple[Slot, ...], counts: Counts, now: datetime
) -> datetime:
    """Return when the rollout last made progress, given the next status."""
    runs = [(slot.node, slot.run) for slot in slots]
    changed = runs != [(slot.node, slot.run) for slot in before.in_flight] or counts != before.counts
    waited = before.phase in PLANNED_WAITS and phase not in {*PLANNED_WAITS, RolloutPhase.STALLED}
    return now if before.last_progress is None or changed or waited else before.last_progress


def silence(status: UpgradeStatus, spec: UpgradeSpec, counts: Counts, now: datetime) -> Finding | None:
    """Return that the rollout has made no progress for too long, given its present status; None if it has.

    A node may take as long as ``timeouts.node`` allows, and the next one starts after ``strategy.nodeInterval``.
    """
    since, limit = status.last_progress, spec.timeouts.no_progress
    if since is None or counts != status.counts:
        return None
    if now <= since + max(limit, spec.timeouts.node * 2) + spec.strategy.node_interval:
        return None
    detail = f"nothing has changed since {timestamp(since)}, for more than {render_duration(limit)}"
    return Finding(reason=Reason.NO_PROGRESS, detail=detail)
