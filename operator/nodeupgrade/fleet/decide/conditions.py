"""Conditions of a NodeUpgrade, following the rules that tools rely on (kstatus: sigs.k8s.io/cli-utils).

While work remains, Reconciling is True and Ready is False. When a person is needed, Stalled is True; never both. When
everything is done, only Ready is True.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from nodeupgrade.api.limits import CONDITION_MESSAGE_LENGTH
from nodeupgrade.api.printable import stored
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import Condition, ConditionStatus, ConditionType, RolloutPhase, UpgradeStatus
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.budgets import QUEUED
from nodeupgrade.fleet.decide.counting import Tally
from nodeupgrade.fleet.decide.phase import RolloutState
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.health.checks import HealthState, status_of
from nodeupgrade.kubelet import probe_delay
from nodeupgrade.kubelethash import KubeletVersion

VALID_SPEC = "the spec is valid"
WAVES_NAMED = 5
"""How many approved waves that do not exist are named."""

_UNHEALTHY = {
    HealthState.FAILING: (ConditionStatus.FALSE, Reason.HEALTH_CHECK_FAILED),
    HealthState.BROKEN: (ConditionStatus.UNKNOWN, Reason.HEALTH_CHECK_ERROR),
    HealthState.PENDING: (ConditionStatus.UNKNOWN, Reason.AWAITING_HEALTH_CHECKS),
}
"""The Healthy condition for each state, the worst first."""


@dataclass(frozen=True, slots=True)
class UndatedCondition:
    """A condition without its type, transition time and generation."""

    status: ConditionStatus
    reason: Reason | str  # a string if an operator of another version has reported it, and this one only keeps it
    message: str


_true = partial(UndatedCondition, ConditionStatus.TRUE)
_false = partial(UndatedCondition, ConditionStatus.FALSE)
_unknown = partial(UndatedCondition, ConditionStatus.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionInput:
    """The input of the conditions of a rollout whose spec is accepted."""

    rollout: RolloutView
    tally: Tally
    state: RolloutState


def of_rollout(at: ConditionInput) -> Mapping[ConditionType, UndatedCondition]:
    """Return the conditions of a rollout whose spec is accepted."""
    impeded_by = at.rollout.ledger.impeded_by
    return {
        **{kind: found for kind, rule in RULES.items() if (found := rule(at)) is not None},
        **_of_state(at.state, impeded_by),
        **_of_impediments(at.rollout.upgrade.status, impeded_by),
    }


def of_rejected(
    before: UpgradeStatus, objection: Finding, state: RolloutState, impeded_by: tuple[Finding, ...]
) -> Mapping[ConditionType, UndatedCondition]:
    """Return the conditions for a spec that is rejected; what was reported about the rollout itself is kept."""

    def unless_known(kind: ConditionType, new: UndatedCondition) -> dict[ConditionType, UndatedCondition]:
        known = before.condition(kind)
        return {kind: UndatedCondition(known.status, known.reason, known.message) if known.reason else new}

    rejected = _false(objection.reason, objection.message)
    untouched = _unknown(Reason.NOT_YET_VERIFIED, "no node was touched")
    return {
        ConditionType.ACCEPTED: rejected,
        **unless_known(ConditionType.PLANNED, rejected),
        **_of_state(state, impeded_by),
        **unless_known(ConditionType.DEGRADED, _false(Reason.NOT_YET_VERIFIED, untouched.message)),
        **unless_known(ConditionType.ZERO_RESTART, untouched),
        **unless_known(ConditionType.READINESS_GUARDED, untouched),
        **_of_impediments(before, impeded_by),
    }


def of_refused_retry(upgrade: Upgrade, objection: Finding) -> Mapping[ConditionType, UndatedCondition]:
    """Return the condition that says why a retry of a rollout that has ended is not carried out."""
    message = f"retry {upgrade.retry} waits, and is carried out once the spec is accepted: {objection.message}"
    return {ConditionType.ACCEPTED: _false(objection.reason, message)}


def of_edit(before: Condition, objection: Finding | None) -> Mapping[ConditionType, UndatedCondition]:
    """Return whether an edit of a rollout that has ended left its spec as it was carried out; empty if nothing is new.

    Args:
        before: the condition Accepted as it stands.
        objection: what was found against the edit.
    """
    if objection is not None:
        return {ConditionType.ACCEPTED: _false(objection.reason, objection.message)}
    rejected = before.reason in {Reason.INVALID_SPEC, Reason.SPEC_CHANGE_REJECTED}
    return {ConditionType.ACCEPTED: _true(Reason.VALID, VALID_SPEC)} if rejected else {}


def _accepted(at: ConditionInput) -> UndatedCondition:
    if not (unknown := at.rollout.unknown_waves):
        return _true(Reason.VALID, VALID_SPEC)
    more = f" and {len(unknown) - WAVES_NAMED} more" if len(unknown) > WAVES_NAMED else ""
    because = (
        f"the spec is valid, but waves are approved that it does not have: {', '.join(unknown[:WAVES_NAMED])}{more}"
    )
    return _true(Reason.VALID, sentence(Reason.UNKNOWN_WAVE, because))


def _planned(at: ConditionInput) -> UndatedCondition:
    rollout, state, nodes = at.rollout, at.state, counted(at.tally.counts.total, "node")
    if not at.tally.counts.total:
        return _false(Reason.NO_MATCHING_NODES, state.message)
    if not rollout.planned or state.reason in QUEUED:
        missing = len(rollout.unclaimed) + len(rollout.held)
        return _false(Reason.NODES_CLAIMED, f"{missing} of {nodes} to be claimed")
    if rollout.spec.action is RolloutAction.PLAN:
        if state.phase is not RolloutPhase.PLANNED:
            return _false(Reason.NODES_CLAIMED, state.message)
        return _true(state.reason, state.message)
    waves = f" in {counted(len(rollout.waves), 'wave')}" if rollout.spec.waves else ""
    return _true(Reason.PLAN_READY, f"{nodes} selected{waves}")


def _degraded(at: ConditionInput) -> UndatedCondition:
    if failed := at.tally.counts.all_failed:
        return _true(Reason.NODES_FAILED, f"{counted(failed, 'node')} failed or rolled back")
    return _false(Reason.PROGRESSING, "no node failed")


def _zero_restart(at: ConditionInput) -> UndatedCondition:
    totals = at.tally.containers
    if totals.restarted:
        return _false(Reason.RESTARTS_DETECTED, f"{counted(totals.restarted, 'container')} restarted")
    if unknown := at.tally.unknown_containers:
        message = f"it is unknown whether {counted(unknown, 'container')} restarted"
        return _unknown(Reason.NOT_YET_VERIFIED, message)
    if unknown := at.tally.unknown_nodes:
        message = f"it is unknown whether containers restarted on {counted(unknown, 'node')}"
        return _unknown(Reason.NOT_YET_VERIFIED, message)
    if not totals.baseline or at.rollout.spec.action is RolloutAction.PLAN:
        return _unknown(Reason.NOT_YET_VERIFIED, "no node has been verified yet")
    if totals.recreated:
        message = (
            f"{counted(totals.recreated, 'container')} of static pods replaced, as kubelet.staticPods: Recreate "
            "asks; no other container was restarted"
        )
        return _false(Reason.STATIC_PODS_RECREATED, message)
    return _true(Reason.VERIFIED, "no container was restarted")


def _guarded(at: ConditionInput) -> UndatedCondition:
    spec, target = at.rollout.spec, KubeletVersion.parse(at.rollout.spec.version)
    if spec.verify.readiness_guard is GuardPolicy.OFF:
        return _false(Reason.READINESS_GUARD_OFF, Reason.READINESS_GUARD_OFF.meaning)
    if probe_delay.keeps_probes(target):
        return _false(Reason.READINESS_GUARD_NOT_NEEDED, f"kubelet {target} keeps the results of probes")
    if problem := at.rollout.ledger.guard_obstacle:
        without = "nodes are upgraded without it, and their tasks list the pods that were reported unready meanwhile"
        required = spec.verify.readiness_guard is GuardPolicy.REQUIRE
        reason = Reason.READINESS_GUARD_UNAVAILABLE
        return _false(reason, sentence(reason, problem) if required else f"{problem}; {without}")
    return _true(
        Reason.READINESS_GUARD_RAISED, "pods of a node in flight stay Ready until its new kubelet has probed them"
    )


def _healthy(at: ConditionInput) -> UndatedCondition | None:
    """Return the Healthy condition, which reports the worst health check; None if there is no health check."""
    rollout = at.rollout
    known = [status_of(check, rollout.ledger.health, rollout.now) for check in rollout.spec.health_checks]
    if not known:
        return None
    for state, (status, reason) in _UNHEALTHY.items():
        if those := [each for each in known if each.state is state]:
            more = f" ({counted(len(those) - 1, 'more health check')} likewise)" if len(those) > 1 else ""
            return UndatedCondition(
                status, reason, sentence(reason, f"health check {those[0].name}: {those[0].message}{more}")
            )
    message = f"{counted(len(known), 'health check')} {'holds' if len(known) == 1 else 'hold'}"
    return _true(Reason.HEALTH_CHECKS_PASSED, message)


RULES: Mapping[ConditionType, Callable[[ConditionInput], UndatedCondition | None]] = {
    ConditionType.ACCEPTED: _accepted,
    ConditionType.PLANNED: _planned,
    ConditionType.DEGRADED: _degraded,
    ConditionType.ZERO_RESTART: _zero_restart,
    ConditionType.READINESS_GUARDED: _guarded,
    ConditionType.HEALTHY: _healthy,
}


def _of_state(state: RolloutState, impeded_by: tuple[Finding, ...]) -> Mapping[ConditionType, UndatedCondition]:
    """Return the conditions about the rollout as a whole.

    Ready, and so ``kubectl get``, reports what matters most: that a person is needed, else what impedes the rollout,
    else how far it is.
    """
    active = not (state.stalled or state.over or state.ready)
    ready = _true if state.ready else _false
    impeded = active and impeded_by
    reason, message = (impeded_by[0].reason, _summed_up(impeded_by)) if impeded else (state.reason, state.message)
    return {
        ConditionType.RECONCILING: (_true if active else _false)(state.reason, state.message),
        ConditionType.STALLED: (_true if state.stalled else _false)(state.reason, state.message),
        ConditionType.READY: ready(reason, message),
        ConditionType.SUCCEEDED: (ready if state.over else _unknown)(state.reason, state.message),
    }


def _of_impediments(before: UpgradeStatus, impeded_by: tuple[Finding, ...]) -> Mapping[ConditionType, UndatedCondition]:
    """Return the Impeded condition; it is absent until something has impeded the rollout."""
    if impeded_by:
        return {ConditionType.IMPEDED: _true(impeded_by[0].reason, _summed_up(impeded_by))}
    if not before.condition(ConditionType.IMPEDED).reason:
        return {}
    message = "no write is refused, and every agent that is needed can run"
    return {ConditionType.IMPEDED: _false(Reason.PROGRESSING, message)}


def _summed_up(findings: tuple[Finding, ...]) -> str:
    """Summarise findings: the message of the first one and the number of others."""
    more = len(findings) - 1
    return findings[0].message + (f" ({counted(more, 'more node')} likewise or for other reasons)" if more else "")


def of_internal_error(problem: str, generation: int, now: datetime) -> Condition:
    """Return the condition for a pass that ended in an unexpected error; the next pass that succeeds revises it."""
    undated = _true(Reason.INTERNAL_ERROR, sentence(Reason.INTERNAL_ERROR, problem))
    return _dated(ConditionType.IMPEDED, undated, now, generation)


def dated(
    upgrade: Upgrade, conditions: Mapping[ConditionType, UndatedCondition], now: datetime
) -> tuple[Condition, ...]:
    """Add transition times: they change only when the status does, as the API conventions require."""
    known = {each.type: each for each in upgrade.status.conditions}

    def since(kind: ConditionType, status: ConditionStatus) -> datetime:
        before = known.get(kind.value)
        return now if before is None or before.status is not status else before.last_transition_time

    return tuple(
        _dated(kind, each, since(kind, each.status), upgrade.generation)
        for kind in ConditionType
        if (each := conditions.get(kind))
    )


def _dated(kind: ConditionType, undated: UndatedCondition, since: datetime, generation: int) -> Condition:
    return Condition(
        type=kind.value,
        status=undated.status,
        reason=str(undated.reason),
        message=stored(undated.message, CONDITION_MESSAGE_LENGTH),
        last_transition_time=since,
        observed_generation=generation,
    )
