"""Conditions of a NodeUpgrade, following the rules that tools rely on (kstatus: sigs.k8s.io/cli-utils).

While work remains, Reconciling is True and Ready is False. When a person is needed, Stalled is True; never both. When
everything is done, only Ready is True.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH, shorten
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
from nodeupgrade.api.values import printable
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.rollout import counting, gates, guard
from nodeupgrade.domain.rollout.backoff import summed_up
from nodeupgrade.domain.rollout.health import HealthState
from nodeupgrade.domain.rollout.phase import RolloutState
from nodeupgrade.domain.rollout.rollout_view import RolloutView
from nodeupgrade.domain.rollout.waves import unknown_waves
from nodeupgrade.kubelet import probe_delay
from nodeupgrade.kubelethash import KubeletVersion

QUEUED = frozenset({Reason.QUEUED, Reason.OVERLAP_CONFLICT})
"""Reasons for which another rollout is waited for, or is in the way."""

_UNHEALTHY = {
    HealthState.FAILING: (ConditionStatus.FALSE, Reason.HEALTH_CHECK_FAILED),
    HealthState.BROKEN: (ConditionStatus.UNKNOWN, Reason.HEALTH_CHECK_BROKEN),
    HealthState.PENDING: (ConditionStatus.UNKNOWN, Reason.AWAITING_HEALTH),
}
"""What the Healthy condition says of each state, the worst first."""

_NEVER = datetime.min.replace(tzinfo=UTC)

_UNTOUCHED = "no node was touched"


@dataclass(frozen=True, slots=True)
class Undated:
    """A condition without its transition time."""

    type: ConditionType
    status: ConditionStatus
    reason: Reason | str
    """A string if an operator of another version has reported it, and this one only keeps it."""
    message: str


def _true(kind: ConditionType, reason: Reason, message: str) -> Undated:
    return Undated(kind, ConditionStatus.TRUE, reason, message)


def _false(kind: ConditionType, reason: Reason, message: str) -> Undated:
    return Undated(kind, ConditionStatus.FALSE, reason, message)


def _unknown(kind: ConditionType, reason: Reason, message: str) -> Undated:
    return Undated(kind, ConditionStatus.UNKNOWN, reason, message)


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


def of_rejected(
    before: UpgradeStatus, objection: Finding, state: RolloutState, impeded_by: tuple[Finding, ...]
) -> tuple[Undated, ...]:
    """Return the conditions for a spec that is rejected; what was reported about the rollout itself is kept."""
    reason, message = objection.reason, objection.message
    defaults = (
        _false(ConditionType.PLANNED, reason, message),
        _false(ConditionType.DEGRADED, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
        _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
        _unknown(ConditionType.READINESS_GUARDED, Reason.NOT_YET_VERIFIED, _UNTOUCHED),
    )
    kept = tuple(_kept(before, default) for default in defaults)
    common = _common(state, impeded_by)
    return (_false(ConditionType.ACCEPTED, reason, message), kept[0], *common, *kept[1:], *_impeded(before, impeded_by))


def of_refused_retry(upgrade: Upgrade, objection: Finding) -> Undated:
    """Return the condition that says why a retry of a rollout that has ended is not carried out."""
    message = f"retry {upgrade.retry} waits, and is carried out once the spec is accepted: {objection.message}"
    return _false(ConditionType.ACCEPTED, objection.reason, message)


def of_rollout(
    rollout: RolloutView,
    state: RolloutState,
    counts: Counts,
    totals: ContainerTotals,
    impeded_by: tuple[Finding, ...],
) -> tuple[Undated, ...]:
    """Return the conditions of a rollout whose spec is accepted."""
    return (
        _true(ConditionType.ACCEPTED, Reason.VALID, _accepted(rollout.upgrade)),
        _planned(rollout, state, counts),
        *_common(state, impeded_by),
        _degraded(counts),
        _zero_restart(rollout, totals),
        _guarded(rollout),
        *_healthy(rollout),
        *_impeded(rollout.upgrade.status, impeded_by),
    )


def _accepted(upgrade: Upgrade) -> str:
    if not (unknown := unknown_waves(upgrade)):
        return "the spec is valid"
    because = f"the spec is valid, but approved and not a wave of it: {', '.join(unknown)}"
    return sentence(Reason.UNKNOWN_WAVE, because)


def _planned(rollout: RolloutView, state: RolloutState, counts: Counts) -> Undated:
    if not counts.total:
        return _false(ConditionType.PLANNED, Reason.NO_MATCHING_NODES, state.message)
    if not rollout.planned or state.reason in QUEUED:
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


def _degraded(counts: Counts) -> Undated:
    if failed := counting.failed(counts):
        return _true(ConditionType.DEGRADED, Reason.NODES_FAILED, f"{counted(failed, 'node')} failed or rolled back")
    return _false(ConditionType.DEGRADED, Reason.PROGRESSING, "no node failed")


def _zero_restart(rollout: RolloutView, totals: ContainerTotals) -> Undated:
    if totals.restarted:
        message = f"{counted(totals.restarted, 'container')} restarted"
        return _false(ConditionType.ZERO_RESTART, Reason.RESTARTS_DETECTED, message)
    if unknown := counting.unknown_containers(rollout):
        message = f"of {counted(unknown, 'container')} it is not known whether they restarted"
        return _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, message)
    if unknown := counting.unknown_nodes(rollout):
        message = f"of {counted(unknown, 'node')} it is not known whether containers restarted"
        return _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, message)
    if totals.baseline and rollout.spec.action is not RolloutAction.PLAN:
        if totals.recreated:
            message = (
                f"{counted(totals.recreated, 'container')} of static pods replaced, as kubelet.staticPods: Recreate "
                "asks; no other container was restarted"
            )
            return _false(ConditionType.ZERO_RESTART, Reason.STATIC_PODS_RECREATED, message)
        return _true(ConditionType.ZERO_RESTART, Reason.VERIFIED, "no container was restarted")
    return _unknown(ConditionType.ZERO_RESTART, Reason.NOT_YET_VERIFIED, "no node has been verified yet")


def _guarded(rollout: RolloutView) -> Undated:
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


def _healthy(rollout: RolloutView) -> tuple[Undated, ...]:
    """Return the Healthy condition, on which the worst check decides; without health checks there is none."""
    known = gates.statuses(rollout)
    for state, (status, reason) in _UNHEALTHY.items():
        if those := [each for each in known if each.state is state]:
            more = f" ({counted(len(those) - 1, 'more health check')} likewise)" if len(those) > 1 else ""
            message = sentence(reason, f"health check {those[0].name}: {those[0].message}{more}")
            return (Undated(ConditionType.HEALTHY, status, reason, message),)
    hold = "holds" if len(known) == 1 else "hold"
    message = f"{counted(len(known), 'health check')} {hold}"
    return (_true(ConditionType.HEALTHY, Reason.HEALTH_CHECKS_HOLD, message),) if known else ()


def _impeded(before: UpgradeStatus, impeded_by: tuple[Finding, ...]) -> tuple[Undated, ...]:
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


def of_internal_error(problem: str, generation: int, now: datetime) -> Condition:
    """Return the condition for a pass that ended in an unexpected error; the next pass that succeeds revises it."""
    return Condition(
        type=ConditionType.IMPEDED.value,
        status=ConditionStatus.TRUE,
        reason=Reason.INTERNAL_ERROR.value,
        message=shorten(printable(sentence(Reason.INTERNAL_ERROR, problem)), CONDITION_MESSAGE_LENGTH),
        last_transition_time=now,
        observed_generation=generation,
    )


def _common(state: RolloutState, impeded_by: tuple[Finding, ...]) -> tuple[Undated, ...]:
    active = not (state.stalled or state.over or state.ready)
    ended = ConditionStatus.UNKNOWN if not state.over else _whether(state.ready)
    # Ready says what matters most, and so `kubectl get` does: that a person is needed, else what is in the way, else
    # how far the rollout is.
    impeded = active and impeded_by
    reason, message = (impeded_by[0].reason, summed_up(impeded_by)) if impeded else (state.reason, state.message)
    return (
        Undated(ConditionType.RECONCILING, _whether(active), state.reason, state.message),
        Undated(ConditionType.STALLED, _whether(state.stalled), state.reason, state.message),
        Undated(ConditionType.READY, _whether(state.ready), reason, message),
        Undated(ConditionType.SUCCEEDED, ended, state.reason, state.message),
    )


def _kept(before: UpgradeStatus, new: Undated) -> Undated:
    """Return a condition as it was reported before, or the new one if it never was."""
    known = find(before, new.type)
    return replace(new, status=known.status, reason=known.reason, message=known.message) if known.reason else new


def dated(upgrade: Upgrade, undated: tuple[Undated, ...], now: datetime) -> tuple[Condition, ...]:
    """Add transition times: they change only when the status does, as the API conventions require."""
    return tuple(_dated(each, find(upgrade.status, each.type), upgrade.generation, now) for each in undated)


def _dated(condition: Undated, before: Condition, generation: int, now: datetime) -> Condition:
    return Condition(
        type=condition.type.value,
        status=condition.status,
        reason=str(condition.reason),
        message=shorten(printable(condition.message), CONDITION_MESSAGE_LENGTH),
        last_transition_time=before.last_transition_time
        if before.reason and before.status is condition.status
        else now,
        observed_generation=generation,
    )


def _whether(holds: bool) -> ConditionStatus:
    return ConditionStatus.TRUE if holds else ConditionStatus.FALSE
