"""The status of a NodeUpgrade: its phase, and what counts and conditions say of a rollout or of a rejected spec."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import Counts, CurrentWave, MissingNodes, RolloutPhase, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.strategy import OnFailure
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import NodeName
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout.budgets import StartDecision
from nodeupgrade.domain.rollout.conditions import (
    QUEUED,
    STALLED_AFTER,
    RolloutState,
    Standing,
    dated,
    ended_early,
    impediments,
    of_refused_retry,
    of_rejected,
    of_rollout,
    overdue,
)
from nodeupgrade.domain.rollout.counting import Tally
from nodeupgrade.domain.rollout.health import told_end
from nodeupgrade.domain.rollout.node_state import NodeState, Place
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot


def rejected(fleet: FleetSnapshot, told: FleetSnapshot, objection: Finding, now: datetime) -> UpgradeStatus:
    """Return the status for a spec that is rejected; what was reported about the rollout itself is kept.

    ``fleet`` is the input as it is now, ``told`` as it will be once the status is written.
    """
    before, reason, message = told.upgrade.status, objection.reason, objection.message
    state = RolloutState(phase=RolloutPhase.STALLED, reason=reason, message=message, stalled=True)
    conditions = of_rejected(before, objection, state, impediments(fleet, overdue(told, now)))
    return replace(
        before,
        observed_generation=told.upgrade.generation,
        phase=state.phase.value,
        progress=before.progress or "0/0",
        missing=_missing(fleet, before.in_flight, now),
        conditions=dated(told.upgrade, conditions, now),
    )


def retry_refused(upgrade: Upgrade, objection: Finding, now: datetime) -> UpgradeStatus:
    """Return the status of a rollout that has ended, and whose retry waits because its spec is rejected.

    The retry is not handled: it is carried out once the spec is accepted again.
    """
    told = of_refused_retry(upgrade, objection)
    renewed = dated(replace(upgrade, generation=upgrade.status.observed_generation), told, now)
    others = tuple(each for each in upgrade.status.conditions if each.type not in told)
    return replace(upgrade.status, conditions=(*renewed, *others))


def summarise(
    fleet: FleetSnapshot, rollout: RolloutView, tally: Tally, decision: StartDecision, *, reopened: bool
) -> UpgradeStatus:
    """Return the status of a rollout.

    Args:
        fleet: The input as it is now.
        rollout: The view of it as it will be once the status is written; its nodes in flight are those with a slot.
        reopened: Whether every node that a retry was requested for is queued again.
    """
    upgrade, spec, now = rollout.upgrade, rollout.spec, rollout.now
    counts, current, before = tally.counts, _current_wave(rollout, tally.waves), fleet.upgrade.status
    state = _state_of(rollout, decision, tally)
    checked = sum(member.place is Place.CHECKED for member in rollout.members.values())
    opens = None if is_open(spec.windows, spec.blackouts, now) else next_opening(spec.windows, spec.blackouts, now)
    made = rollout.planned and bool(before.accepted_spec_digest) and state.reason not in QUEUED
    started = rollout.flying and spec.action is not RolloutAction.PLAN
    gone, late = _missing(fleet, rollout.flying, now), (*ended_early(rollout.fleet), *overdue(rollout.fleet, now))
    standing = Standing(rollout=rollout, tally=tally, state=state, impeded_by=impediments(fleet, late))
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        accepted_spec_digest=before.accepted_spec_digest or upgrade.spec_digest,
        last_handled_retry=upgrade.retry if reopened and upgrade.retry_asked else before.last_handled_retry,
        phase=state.phase.value,
        progress=f"{counts.succeeded + counts.skipped + checked}/{counts.total}",
        failed=counts.all_failed,
        counts=counts,
        containers=tally.containers,
        in_flight=rollout.flying,
        missing=gone,
        failures=tally.failures,
        skips=tally.skips,
        accepted=tally.accepted or None,
        current_wave=current,
        waves=tally.waves,
        ended_by_check=rollout.ended_by,
        preview=tally.preview,
        next_window=opens,
        planned_at=before.planned_at or (now if made else None),
        started_at=before.started_at or (now if started else None),
        completed_at=(before.completed_at or now) if state.over else None,
        conditions=dated(upgrade, of_rollout(standing), now),
    )


def _current_wave(rollout: RolloutView, waves: tuple[WaveStatus, ...]) -> CurrentWave | None:
    """Return the current wave; after the end, the last one; None without waves."""
    at = rollout.position
    if not rollout.spec.waves or at.index < 0:
        return None
    index = min(at.index, len(waves) - 1)
    wave = waves[index]
    return CurrentWave(name=wave.name, index=index + 1, of=len(waves), started_at=wave.started_at, soak_until=at.until)


def _missing(fleet: FleetSnapshot, slots: Collection[NodeName], now: datetime) -> MissingNodes | None:
    """Return what is said of missing nodes once these nodes are in flight; None if none is missing."""
    every = fleet.missing
    left = [name for name in every if name in slots]
    if not left:
        return None
    before = fleet.upgrade.status.missing
    since = before.since if before is not None and before.names == MissingNodes.digest(every) else now
    return MissingNodes(nodes=len(left), since=since, names=MissingNodes.digest(left))


# The phase: how the rollout as a whole stands.

_PHASES = {
    Reason.PAUSED: RolloutPhase.PAUSED,
    Reason.QUEUED: RolloutPhase.QUEUED,
    Reason.WAITING_FOR_WINDOW: RolloutPhase.WAITING_FOR_WINDOW,
    Reason.AWAITING_APPROVAL: RolloutPhase.AWAITING_APPROVAL,
    Reason.SOAKING: RolloutPhase.SOAKING,
    Reason.NODE_HELD: RolloutPhase.PENDING,
    Reason.HELD_BY_POD: RolloutPhase.PENDING,
}


def _state_of(rollout: RolloutView, decision: StartDecision, tally: Tally) -> RolloutState:
    """Return the state of the rollout, given which nodes may start or why none may."""
    counts, done = tally.counts, _done(rollout, tally)
    if rollout.upgrade.deleting:
        message = f"{done}, {counts.in_progress} in flight"
        return RolloutState(phase=RolloutPhase.RUNNING, reason=Reason.DELETING, message=message)
    if rollout.flying:
        return _late(rollout, decision, done) or _flying(rollout, counts, done)
    if rollout.spec.action is RolloutAction.ABORT:
        message = sentence(Reason.ABORTED, f"{done}; the rollout was aborted")
        return _ended(RolloutPhase.ABORTED, Reason.ABORTED, message)
    if name := rollout.ended_by:
        message = f"{done}; {told_end(name)}; see the condition Healthy."
        return _ended(RolloutPhase.ABORTED, Reason.ABORTED, message)
    if not counts.total:
        message = sentence(Reason.NO_MATCHING_NODES, "no node matches spec.nodes")
        return RolloutState(phase=RolloutPhase.STALLED, reason=Reason.NO_MATCHING_NODES, message=message, stalled=True)
    if decision.reason in {Reason.QUEUED, Reason.OVERLAP_CONFLICT}:
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
    """Return the state while nodes are in flight and a person is needed all the same; None if none is.

    That is so once a timeout of the rollout has passed, and once only nodes are left in flight whose runs never end.
    """
    if rollout.spec.action is RolloutAction.PLAN:
        return None
    names = f"{', '.join(rollout.flying[:_NAMED])}{' …' if len(rollout.flying) > _NAMED else ''}"
    if decision.reason is Reason.TIMED_OUT:
        return _held_back(replace(decision, message=f"{done}; in flight: {names}; {decision.message}"))
    lost = overdue(rollout.fleet, rollout.now, STALLED_AFTER)
    if not lost or len(lost) < len(rollout.flying) or decision.nodes:
        return None
    more = f" (in flight: {names})" if len(lost) > 1 else ""
    message = f"{done}; {lost[0].message}{more}"
    return RolloutState(phase=RolloutPhase.STALLED, reason=Reason.NODE_OVERDUE, message=message, stalled=True)


_NAMED = 3


def _flying(rollout: RolloutView, counts: Counts, done: str) -> RolloutState:
    if rollout.spec.action is RolloutAction.PLAN:
        message = f"{_looked_at(rollout, counts)}, {counts.in_progress} in flight"
        return RolloutState(phase=RolloutPhase.PLANNING, reason=Reason.PROGRESSING, message=message)
    message = f"{done}, {counts.in_progress} in flight{_told_of_refused(rollout)}"
    return RolloutState(phase=RolloutPhase.RUNNING, reason=Reason.PROGRESSING, message=message)


def _told_of_refused(rollout: RolloutView) -> str:
    """Return why nodes are refused that nothing but a person brings back: most often they all have one cause."""
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
        message = (
            sentence(Reason.PAUSED, f"{done}; paused") if not rollout.upgrade.braked else f"{done}; {decision.message}"
        )
        return RolloutState(phase=RolloutPhase.PAUSED, reason=Reason.PAUSED, message=message)
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
    unsuccessful += [(known_reason(each.reason) or Reason.FAILED, each.message) for each in rollout.departed.listed]
    if number := len(unsuccessful) + rollout.departed.more.failed + rollout.departed.more.refused:
        others = Reason.NODES_FAILED if counts.all_failed else Reason.NODES_REFUSED
        others = Reason.ROLLBACK_FAILED if counts.rollback_failed else others
        more = f" ({counted(number - 1, 'more node')} did not succeed)" if number > 1 else ""
        first = unsuccessful[0][1] if unsuccessful else sentence(others, "nodes did not succeed that are gone")
        alike = {reason for reason, _ in unsuccessful}
        only = next(iter(alike)) if len(alike) == 1 and number == len(unsuccessful) else others
        return _ended(RolloutPhase.FAILED, only, first + more)
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
