"""Which nodes the operator starts next: the planner's own decision, and what of it only the operator can know.

Only the operator evaluates health checks, and only its settings have the limits for the whole cluster. What came of
both is in the conditions of the NodeUpgrade, as far as they are of its present generation.
"""

from collections.abc import Iterator
from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import Condition, ConditionStatus, ConditionType
from nodeupgrade.fleet.decide.budgets import StartDecision, decide_start
from nodeupgrade.fleet.decide.rollout_view import RolloutView

_TOLD = frozenset(
    {
        Reason.CLUSTER_BUDGET_REACHED,
        Reason.HEALTH_CHECK_FAILED,
        Reason.HEALTH_CHECK_ERROR,
        Reason.AWAITING_HEALTH_CHECKS,
        Reason.NO_PROGRESS,  # takes the place of the first, with its message
    }
)
"""Reasons of the operator's that nobody else can find."""


def expected_start(rollout: RolloutView) -> StartDecision:
    """Decide as the operator would, with its own word on what only it knows."""
    told = _told(rollout.upgrade)
    if told is not None or _current(rollout.upgrade, ConditionType.HEALTHY) is not None:
        rollout = replace(rollout, health_objection=None, health_awaited=None)
    decision = decide_start(rollout)
    if told is None or not decision.nodes:
        return decision
    return StartDecision(reason=Reason(told.reason), message=told.message)


def provided(rollout: RolloutView) -> str:
    """Return on what a start still depends that is not known here, as a clause; empty if on nothing."""
    upgrade = rollout.upgrade
    if rollout.spec.action is RolloutAction.PLAN:
        return ""
    begun = upgrade.status.started_at is not None
    flying = rollout.flying or (not begun and any(each.status.in_flight for each in rollout.ledger.rivals))
    clauses = (
        "all health checks have held for as long as they must" if rollout.spec.health_checks else "",
        "the operator's limits for the whole cluster allow it" if flying else "",
    )
    return " and ".join(filter(None, clauses))


def _told(upgrade: Upgrade) -> Condition | None:
    return next(_objections(upgrade), None)


def _objections(upgrade: Upgrade) -> Iterator[Condition]:
    for kind in (ConditionType.STALLED, ConditionType.RECONCILING):
        state = _current(upgrade, kind)
        if state is not None and state.status is ConditionStatus.TRUE and state.reason in _TOLD:
            yield state
    healthy = _current(upgrade, ConditionType.HEALTHY)
    if healthy is not None and healthy.status is not ConditionStatus.TRUE and healthy.reason in _TOLD:
        yield healthy


def _current(upgrade: Upgrade, kind: ConditionType) -> Condition | None:
    """Return a condition that the operator derived from the present spec."""
    condition = upgrade.status.condition(kind)
    return condition if condition.reason and condition.observed_generation == upgrade.generation else None
