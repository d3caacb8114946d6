"""Conditions and status of a NodeUpgrade, following the rules that tools rely on (kstatus: sigs.k8s.io/cli-utils).

While work remains, Reconciling is True and Ready is False. When a person is needed, Stalled is True; never both. When
everything is done, only Ready is True.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH
from nodeupgrade.api.reasons import Reason, counted, sentence
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    ContainerTotals,
    Counts,
    RolloutPhase,
    UpgradeStatus,
)
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.rollout import guard
from nodeupgrade.domain.rollout.backoff import summed_up
from nodeupgrade.domain.rollout.inflight.retry import retry_asked
from nodeupgrade.domain.rollout.report import counting
from nodeupgrade.domain.rollout.report.phase import RolloutState
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView
from nodeupgrade.domain.rollout.select.waves import WavePosition, unknown_waves
from nodeupgrade.kubelet import probe_delay
from nodeupgrade.kubelethash import KubeletVersion

_QUEUED = frozenset({Reason.QUEUED, Reason.OVERLAP_CONFLICT})

_NEVER = datetime.min.replace(tzinfo=UTC)

_UNTOUCHED = "no node was touched"


@dataclass(frozen=True, slots=True)
class _Undated:
    """A condition without its transition time."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason
    message: str


def _true(kind: ConditionType, reason: Reason, message: str) -> _Undated:
    return _Undated(kind, ConditionStatus.TRUE, reason, message)


def _false(kind: ConditionType, reason: Reason, message: str) -> _Undated:
    return _Undated(kind, ConditionStatus.FALSE, reason, message)


def _unknown(kind: ConditionType, reason: Reason, message: str) -> _Undated:
    return _Undated(kind, ConditionStatus.UNKNOWN, reason, message)


def find(status: UpgradeStatus, kind: ConditionType) -> Condition:
    """Return one condition; if it was never set, its status is Unknown and its reason empty."""
    for condition in status.conditions:
        if condition.type == kind:
            return condition
    return Condition(
        type=kind.value, status=ConditionStatus.UNKNOWN, reason="", message="", last_transition_time=_NEVER
    )


def holds(status: UpgradeStatus, kind: ConditionType) -> bool:
    """Report whether a condition is True."""
    return find(status, kind).status is ConditionStatus.TRUE


def fails(status: UpgradeStatus, kind: ConditionType) -> bool:
    """Report whether a condition is False."""
    return find(status, kind).status is ConditionStatus.FALSE


def rejected(
    upgrade: Upgrade,
    objection: Finding,
    slots: tuple[NodeName, ...],
    now: datetime,
    *,
    impeded_by: tuple[Finding, ...] = (),
) -> UpgradeStatus:
    """Return the status for a spec that is rejected; what was reported about the rollout itself is kept."""
    before, reason, message = upgrade.status, objection.reason, objection.message
    state = RolloutState(phase=RolloutPhase.STALLED, reason=reason, message=message, stalled=True)
    defaults = (
        _false(ConditionType.PLANNED, reason, message),
        _false(ConditionType.DEGRADED, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
        _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
        _unknown(ConditionType.READINESS_GUARDED, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
    )
    kept = tuple(_kept(before, default) for default in defaults)
    impeded = _impeded(before, impeded_by)
    undated = (_false(ConditionType.ACCEPTED, reason, message), kept[0], *_common(state), *kept[1:], *impeded)
    return replace(
        before,
        observed_generation=upgrade.generation,
        phase=state.phase.value,
        progress=before.progress or "0/0",
        in_flight=slots,
        conditions=_conditions(upgrade, undated, now),
    )


def summarise(
    rollout: RolloutView,
    at: WavePosition,
    state: RolloutState,
    now: datetime,
    *,
    before: UpgradeStatus,
    reopened: bool,
    impeded_by: tuple[Finding, ...] = (),
) -> UpgradeStatus:
    """Return the status of a rollout.

    Args:
        rollout: The view of it as it will be once the status is written; its nodes in flight are those with a slot.
        at: The current wave.
        state: The state of the rollout as a whole.
        now: Wall-clock time, UTC.
        before: The status as it is now.
        reopened: Whether every node that a retry was requested for is queued again.
        impeded_by: What keeps nodes from making progress.
    """
    upgrade, spec = rollout.upgrade, rollout.spec
    counts, totals = counting.count(rollout.members.values()), counting.containers(rollout)
    waves = counting.wave_statuses(rollout, at, now)
    checked = sum(member.place is Place.CHECKED for member in rollout.members.values())
    upgrades = spec.action is not RolloutAction.PLAN
    opens = None if is_open(spec.windows, spec.blackouts, now) else next_opening(spec.windows, spec.blackouts, now)
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        accepted_spec_digest=before.accepted_spec_digest or upgrade.spec_digest,
        last_handled_retry=upgrade.retry if reopened and retry_asked(upgrade) else before.last_handled_retry,
        phase=state.phase.value,
        progress=f"{counts.succeeded + counts.skipped + checked}/{counts.total}",
        failed=counting.failed(counts),
        counts=counts,
        containers=totals,
        in_flight=rollout.flying,
        failures=counting.failures(rollout, now),
        skips=counting.skips(rollout),
        current_wave=counting.current_wave(waves, at) if spec.waves else None,
        waves=waves,
        preview=counting.preview(rollout),
        next_window=opens,
        planned_at=before.planned_at or (now if _is_made(rollout, state, before) else None),
        started_at=before.started_at or (now if rollout.flying and upgrades else None),
        completed_at=(before.completed_at or now) if state.over else None,
        conditions=_conditions(
            upgrade, (*_undated(rollout, state, counts, totals), *_impeded(before, impeded_by)), now
        ),
    )


def _is_made(rollout: RolloutView, state: RolloutState, before: UpgradeStatus) -> bool:
    """Report whether the plan is made: the accepted spec is recorded, and every node that needs a claim has one."""
    return rollout.planned and bool(before.accepted_spec_digest) and state.reason not in _QUEUED


def _undated(
    rollout: RolloutView, state: RolloutState, counts: Counts, totals: ContainerTotals
) -> tuple[_Undated, ...]:
    return (
        _true(ConditionType.ACCEPTED, Reason.VALID, _accepted(rollout.upgrade)),
        _planned(rollout, state, counts),
        *_common(state),
        _degraded(counts),
        _zero_restart(rollout, totals),
        _guarded(rollout),
    )


def _accepted(upgrade: Upgrade) -> str:
    if not (unknown := unknown_waves(upgrade)):
        return "the spec is valid"
    because = f"the spec is valid, but approved and not a wave of it: {', '.join(unknown)}"
    return sentence(Reason.UNKNOWN_WAVE, because)


def _planned(rollout: RolloutView, state: RolloutState, counts: Counts) -> _Undated:
    if not counts.total:
        return _false(ConditionType.PLANNED, Reason.NO_MATCHING_NODES, state.message)
    if not rollout.planned or state.reason in _QUEUED:
        missing = len(rollout.unclaimed) + len(rollout.held)
        return _false(
            ConditionType.PLANNED, Reason.NODES_CLAIMED, f"{missing} of {counted(counts.total, 'node')} to be claimed"
        )
    if rollout.spec.action is RolloutAction.PLAN:
        if state.phase is not RolloutPhase.PLANNED:
            return _false(ConditionType.PLANNED, Reason.NODES_CLAIMED, state.message)
        return _true(ConditionType.PLANNED, state.reason, state.message)
    waves = f" in {counted(len(rollout.waves), 'wave')}" if rollout.spec.waves else ""
    return _true(ConditionType.PLANNED, Reason.PLAN_READY, f"{counted(counts.total, 'node')} selected{waves}")


def _degraded(counts: Counts) -> _Undated:
    if failed := counting.failed(counts):
        return _true(ConditionType.DEGRADED, Reason.NODES_FAILED, f"{counted(failed, 'node')} failed or rolled back")
    return _false(ConditionType.DEGRADED, Reason.PROGRESSING, "no node failed")


def _zero_restart(rollout: RolloutView, totals: ContainerTotals) -> _Undated:
    if totals.restarted:
        message = f"{counted(totals.restarted, 'container')} restarted"
        return _false(ConditionType.ZERO_RESTART, Reason.RESTARTS_DETECTED, message)
    if unknown := counting.unknown_containers(rollout):
        message = f"of {counted(unknown, 'container')} it is not known whether they restarted"
        return _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, message)
    if totals.baseline and rollout.spec.action is not RolloutAction.PLAN:
        return _true(ConditionType.ZERO_RESTART, Reason.VERIFIED, "no container was restarted")
    return _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, "no node has been verified yet")


def _guarded(rollout: RolloutView) -> _Undated:
    fleet, spec, target = rollout.fleet, rollout.spec, KubeletVersion.parse(rollout.spec.version)
    if spec.verify.readiness_guard is GuardPolicy.OFF:
        return _false(ConditionType.READINESS_GUARDED, Reason.READINESS_GUARD_OFF, Reason.READINESS_GUARD_OFF.meaning)
    if probe_delay.keeps_probes(target):
        return _false(
            ConditionType.READINESS_GUARDED,
            Reason.READINESS_GUARD_NOT_NEEDED,
            f"kubelet {target} keeps what probes have found",
        )
    if problem := guard.obstacle(fleet.server, fleet.guard):
        without = "nodes are upgraded without, and their tasks tell which pods were reported unready meanwhile"
        required = spec.verify.readiness_guard is GuardPolicy.REQUIRE
        reason = Reason.READINESS_GUARD_UNAVAILABLE
        return _false(
            ConditionType.READINESS_GUARDED, reason, sentence(reason, problem) if required else f"{problem}; {without}"
        )
    return _true(
        ConditionType.READINESS_GUARDED,
        Reason.GUARDED,
        "pods of a node in flight stay Ready until its new kubelet has probed them",
    )


def _impeded(before: UpgradeStatus, impeded_by: tuple[Finding, ...]) -> tuple[_Undated, ...]:
    """Return the Impeded condition; it is absent until something has impeded the rollout."""
    if impeded_by:
        return (_true(ConditionType.IMPEDED, impeded_by[0].reason, summed_up(impeded_by)),)
    if not find(before, ConditionType.IMPEDED).reason:
        return ()
    return (
        _false(
            ConditionType.IMPEDED, Reason.PROGRESSING, "no write is refused, and every agent that is needed can run"
        ),
    )


def _common(state: RolloutState) -> tuple[_Undated, ...]:
    active = not (state.stalled or state.over or state.ready)
    ended = ConditionStatus.UNKNOWN if not state.over else _whether(state.ready)
    return (
        _Undated(ConditionType.RECONCILING, _whether(active), state.reason, state.message),
        _Undated(ConditionType.STALLED, _whether(state.stalled), state.reason, state.message),
        _Undated(ConditionType.READY, _whether(state.ready), state.reason, state.message),
        _Undated(ConditionType.SUCCEEDED, ended, state.reason, state.message),
    )


def _kept(before: UpgradeStatus, new: _Undated) -> _Undated:
    """Return a condition as it was reported before, or the new one if it never was."""
    known = find(before, new.type)
    return (
        replace(new, status=known.status, reason=Reason(known.reason), message=known.message) if known.reason else new
    )


def _conditions(upgrade: Upgrade, undated: tuple[_Undated, ...], now: datetime) -> tuple[Condition, ...]:
    """Add transition times: they change only when the status does, as the API conventions require."""
    return tuple(_dated(each, find(upgrade.status, each.type), upgrade.generation, now) for each in undated)


def _dated(condition: _Undated, before: Condition, generation: int, now: datetime) -> Condition:
    return Condition(
        type=condition.type.value,
        status=condition.status,
        reason=condition.reason.value,
        message=condition.message[:CONDITION_MESSAGE_LENGTH],
        last_transition_time=before.last_transition_time
        if before.reason and before.status is condition.status
        else now,
        observed_generation=generation,
    )


def _whether(holds: bool) -> ConditionStatus:
    return ConditionStatus.TRUE if holds else ConditionStatus.FALSE
