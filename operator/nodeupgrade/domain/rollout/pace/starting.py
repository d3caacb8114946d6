"""Which nodes to start now: evaluates every gate, then every budget."""

from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction
from nodeupgrade.domain.rollout.pace import budgets, gates
from nodeupgrade.domain.rollout.pace.budgets import Budget, Choice
from nodeupgrade.domain.rollout.pace.gates import Gate, Situation
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView
from nodeupgrade.domain.rollout.select.waves import Front, front


def front_of(rollout: RolloutView, now: datetime) -> Front:
    """Return the current wave; ``action: Plan`` ignores waves."""
    if rollout.spec.action is not RolloutAction.PLAN:
        return front(rollout.upgrade, rollout.waves, now)
    pending = tuple(member for member in rollout.members.values() if member.place is Place.PENDING)
    return Front(index=-1, pending=pending)


def choose(rollout: RolloutView, at: Front, now: datetime) -> Choice:
    """Return the nodes that may be started now, or why none may."""
    if rollout.held and not rollout.planned:
        reason = Reason.QUEUED if rollout.spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
        return Choice(reason=reason, message=rollout.held[0].message)
    situation = Situation(rollout=rollout, front=at, now=now)
    if rollout.spec.action is RolloutAction.PLAN:
        return _evaluate(situation, gates.PRECHECK_GATES, (budgets.precheck_slots,))
    return _evaluate(situation, gates.GATES, budgets.BUDGETS)


def _evaluate(situation: Situation, all_gates: tuple[Gate, ...], all_budgets: tuple[Budget, ...]) -> Choice:
    for gate in all_gates:
        if (closed := gate(situation)) is not None:
            return Choice(reason=closed.reason, message=closed.message)
    choice = Choice(nodes=situation.front.pending)
    for budget in all_budgets:
        if choice.nodes:
            choice = budget(situation, choice.nodes)
    return Choice(nodes=choice.nodes) if choice.nodes else choice
