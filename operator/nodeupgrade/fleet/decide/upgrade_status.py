"""The status of a NodeUpgrade, and the events about what it reports for the first time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from nodeupgrade.api.limits import FAILURES_LISTED, stored_uid
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.run_id import kind_of, new_run_id, of_kind
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import (
    ConditionStatus,
    ConditionType,
    CurrentWave,
    RolloutPhase,
    Slot,
    UpgradeStatus,
    WaveStatus,
)
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import RunKind
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import NodeAction, Refuse, Report, ReportWave, Skip, WriteStatus
from nodeupgrade.fleet.decide.admission import objection_to_change
from nodeupgrade.fleet.decide.budgets import QUEUED, StartDecision
from nodeupgrade.fleet.decide.conditions import (
    ConditionInput,
    UndatedCondition,
    dated,
    of_edit,
    of_refused_retry,
    of_rejected,
    of_rollout,
)
from nodeupgrade.fleet.decide.counting import ADMISSION, tally
from nodeupgrade.fleet.decide.ledger import Ledger
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.phase import RolloutState, last_progress, state_of
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.text import trimmed

EventAction: TypeAlias = Refuse | Skip | ReportWave | Report


def reject(before: UpgradeStatus, ledger: Ledger, objection: Finding) -> tuple[NodeAction, ...]:
    """Start nothing, let nodes in flight finish, and report why the spec is rejected."""
    upgrade = ledger.upgrade
    if not upgrade.finished:
        status = _rejected(ledger, objection)
        news = _news(before, status, ConditionType.IMPEDED, ConditionStatus.TRUE)
    else:
        status = _retry_refused(ledger, objection) if upgrade.retry_requested else observed(upgrade, ledger.now)
        news = _news(before, status, ConditionType.ACCEPTED, ConditionStatus.FALSE)
    return (*news, *reported(before, status))


def _rejected(ledger: Ledger, objection: Finding) -> UpgradeStatus:
    """Return the status for a spec that is rejected; what was reported about the rollout itself stays."""
    upgrade, before = ledger.upgrade, ledger.upgrade.status
    state = RolloutState(phase=RolloutPhase.STALLED, reason=objection.reason, message=objection.message, stalled=True)
    others = (failure for failure in before.failures if failure.outcome is None)
    return replace(
        before,
        observed_generation=upgrade.generation,
        phase=state.phase.value,
        progress=before.progress or "0/0",
        in_flight=tuple(ledger.slots.values()),
        failures=(*ledger.failures, *others)[:FAILURES_LISTED],
        conditions=dated(upgrade, of_rejected(before, objection, state, ledger.impeded_by), ledger.now),
    )


def _retry_refused(ledger: Ledger, objection: Finding) -> UpgradeStatus:
    """Return the status of a rollout that has ended, and whose retry waits until its spec is accepted again."""
    waiting = of_refused_retry(ledger.upgrade, objection)
    return _with_conditions(observed(ledger.upgrade, ledger.now), ledger.upgrade, waiting, ledger.now)


def observed(upgrade: Upgrade, now: datetime) -> UpgradeStatus:
    """Return the status of a rollout that has ended, whose spec was edited since: the edit is seen, and has no effect.

    To kstatus, and so to Flux and Argo CD, an object is in progress as long as its latest generation is not observed.
    That of a spec which the rollout did not carry out, and never will, is not: Accepted says why.
    """
    status, generation, objection = upgrade.status, upgrade.generation, objection_to_change(upgrade)
    if objection is None:
        conditions = tuple(replace(each, observed_generation=generation) for each in status.conditions)
        status = replace(status, observed_generation=generation, conditions=conditions)
    return _with_conditions(status, upgrade, of_edit(status.condition(ConditionType.ACCEPTED), objection), now)


def _with_conditions(
    status: UpgradeStatus, upgrade: Upgrade, conditions: Mapping[ConditionType, UndatedCondition], now: datetime
) -> UpgradeStatus:
    if not conditions:
        return status
    others = tuple(each for each in status.conditions if each.type not in conditions)
    return replace(status, conditions=(*dated(upgrade, conditions, now), *others))


def summarise(
    before: UpgradeStatus,
    rollout: RolloutView,
    decision: StartDecision,
    *,
    reopened: bool,
) -> UpgradeStatus:
    """Return the status of a rollout.

    Args:
        before: The status as it is now.
        rollout: The rollout as it will be once the status is written; its nodes in flight are those with a slot.
        decision: Which nodes start, or why none does.
        reopened: Whether a retry is requested, and every node that it concerns is queued again.
    """
    upgrade, spec, now, tallied = rollout.upgrade, rollout.spec, rollout.now, tally(rollout)
    flying = tuple(rollout.ledger.slots.get(name) or _taken(rollout, rollout.members[name]) for name in rollout.flying)
    counts, state = tallied.counts, state_of(rollout, decision, tallied)
    progressed = last_progress(before, state.phase, flying, counts, now)
    checked = sum(member.place is Place.CHECKED for member in rollout.members.values())
    opens = None if is_open(spec.windows, spec.blackouts, now) else next_opening(spec.windows, spec.blackouts, now)
    made = rollout.planned and bool(before.accepted_spec_digest) and state.reason not in QUEUED
    started = any(kind_of(slot.run) is RunKind.UPGRADE for slot in flying)
    known = ConditionInput(rollout=rollout, tally=tallied, state=state)
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        accepted_spec_digest=before.accepted_spec_digest or upgrade.spec_digest,
        last_handled_retry=upgrade.retry if reopened else before.last_handled_retry,
        phase=state.phase.value,
        progress=f"{counts.succeeded + counts.skipped + checked}/{counts.total}",
        failed=counts.all_failed,
        counts=counts,
        containers=tallied.containers,
        in_flight=flying,
        leader=before.leader,
        last_progress=progressed,
        failures=tallied.failures,
        skips=tallied.skips,
        accepted=tallied.accepted or None,
        current_wave=_current_wave(rollout, tallied.waves),
        waves=tallied.waves,
        ended_by_check=rollout.ended_by,
        preview=tallied.preview,
        next_window=opens,
        planned_at=before.planned_at or (now if made else None),
        started_at=before.started_at or (now if started else None),
        completed_at=(before.completed_at or now) if state.over else None,
        conditions=dated(upgrade, of_rollout(known), now),
    )


def _current_wave(rollout: RolloutView, waves: tuple[WaveStatus, ...]) -> CurrentWave | None:
    """Return the current wave; after the end, the last one; None without waves."""
    at = rollout.position
    if not rollout.spec.waves or at.index < 0:
        return None
    index = min(at.index, len(waves) - 1)
    wave = waves[index]
    return CurrentWave(name=wave.name, index=index + 1, of=len(waves), started_at=wave.started_at, soak_until=at.until)


def _taken(rollout: RolloutView, member: NodeState) -> Slot:
    """Return the slot that a node takes now."""
    uid = "" if member.view is None else stored_uid(member.view.uid)
    run = of_kind(new_run_id(rollout.upgrade.uid, rollout.now), rollout.spec.action.run_kind)
    return Slot(node=member.node, uid=uid, wave=member.wave, run=run, since=rollout.now)


def new_events(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> tuple[EventAction, ...]:
    """Return what the new status reports for the first time, except for the state of the rollout as a whole."""
    return (
        *_refusals(rollout, before, after),
        *_skips(rollout, before, after),
        *(_waves(before, after) if rollout.spec.waves else ()),
        *_unknown(rollout, before, after),
        *_news(before, after, ConditionType.IMPEDED, ConditionStatus.TRUE),
        *_retries(before, after),
    )


def _news(before: UpgradeStatus, after: UpgradeStatus, kind: ConditionType, bad: ConditionStatus) -> tuple[Report, ...]:
    """Report a condition that says what keeps the rollout or its nodes from making progress, whenever that changes."""
    now, known = (each.condition(kind) for each in (after, before))
    if now.status is not bad or now.message == known.message:
        return ()
    return (Report(reason=Reason(now.reason), message=now.message, warning=True),)


def _retries(before: UpgradeStatus, after: UpgradeStatus) -> tuple[Report, ...]:
    """Report that a retry was carried out."""
    if after.last_handled_retry == before.last_handled_retry:
        return ()
    return (Report(reason=Reason.RETRIED, message=f"retry {after.last_handled_retry} is carried out"),)


def reported(
    before: UpgradeStatus, status: UpgradeStatus, others: Iterable[EventAction] = ()
) -> tuple[WriteStatus | Report, ...]:
    """Write the status if it changed, and report a new reason or the end of the rollout, unless ``others`` do so.

    The reason is that of Reconciling; Ready may repeat that of Impeded, which has its own events.
    """
    if status == before:
        return ()
    now, known = (each.condition(ConditionType.RECONCILING) for each in (status, before))
    reason = known_reason(now.reason) or Reason.PROGRESSING  # of a rollout that ended, perhaps under a later version
    write = WriteStatus(status=status, reason=reason, message=trimmed(f"{status.phase} {status.progress}"))
    refused = (failure.reason for failure in before.failures if failure.step == ADMISSION)
    ends = status.fails(ConditionType.SUCCEEDED) and not before.fails(ConditionType.SUCCEEDED)
    if now.reason in {*(each.reason for each in others), *refused} or (now.reason == known.reason and not ends):
        return (write,)
    warning = status.holds(ConditionType.STALLED) or status.fails(ConditionType.SUCCEEDED)
    return (write, Report(reason=reason, message=now.message, warning=warning))


def _refusals(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> Iterator[Refuse]:
    known = {(failure.node, failure.reason) for failure in before.failures}
    listed = {(failure.node, failure.reason) for failure in after.failures} - known
    for member in rollout.members.values():
        untouched = member.place is Place.REFUSED and not member.begun
        if untouched and (member.node, member.reason.value) in listed:
            yield Refuse(node=member.node, reason=member.reason, message=member.message)


def _skips(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> Iterator[Skip]:
    """Yield one event for each reason for which more nodes are skipped than before."""
    known = before.skips or {}
    for reason, number in (after.skips or {}).items():
        if number <= known.get(reason, 0):
            continue
        places = (s for s in rollout.members.values() if s.place is Place.SKIPPED and s.reason == reason)
        more = f" (and {number - 1} more)" if number > 1 else ""
        yield Skip(reason=Reason(reason), message=next(places).message + more)


def _waves(before: UpgradeStatus, after: UpgradeStatus) -> Iterator[ReportWave]:
    known = {wave.name: wave for wave in before.waves}
    for wave in after.waves:
        previous = known.get(wave.name, WaveStatus(name=wave.name))
        if wave.started_at and not previous.started_at:
            by = f", approved by {wave.approved_by}" if wave.approved_by else ""
            message = f"wave {wave.name} of {counted(wave.total, 'node')} begins{by}"
            yield ReportWave(wave=wave.name, reason=Reason.WAVE_STARTED, message=message)
        if wave.started_at and wave.completed_at and not previous.completed_at:
            yield ReportWave(wave=wave.name, reason=Reason.WAVE_COMPLETED, message=_completed(wave))


def _completed(wave: WaveStatus) -> str:
    numbers = (
        (wave.succeeded, "upgraded"), (wave.skipped, "skipped"), (wave.refused, "refused"), (wave.failed, "failed"),
    )  # fmt: skip
    counts = ", ".join(f"{number} {word}" for number, word in numbers if number)
    return f"wave {wave.name} is over: {counts}"


def _unknown(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> tuple[Report, ...]:
    """Report the approved waves that do not exist, in one event, whenever the condition about them changes."""
    now, known = (each.condition(ConditionType.ACCEPTED) for each in (after, before))
    if not rollout.unknown_waves or now.message == known.message:
        return ()
    return (Report(reason=Reason.UNKNOWN_WAVE, message=now.message, warning=True),)
