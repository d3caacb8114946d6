"""Which nodes are started now: every gate is asked, then every budget."""

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
    """Find the wave whose turn it is; for ``action: Plan`` waves do not matter."""
    if rollout.spec.action is not RolloutAction.PLAN:
        return front(rollout.upgrade, rollout.waves, now)
    pending = tuple(member for member in rollout.members.values() if member.place is Place.PENDING)
    return Front(index=-1, pending=pending)


def choose(rollout: RolloutView, at: Front, now: datetime) -> Choice:
    """Choose the nodes that may be started now, or say what they wait for."""
    if rollout.held and not rollout.planned:
        reason = Reason.QUEUED if rollout.spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
        return Choice(reason=reason, message=rollout.held[0].message)
    situation = Situation(rollout=rollout, front=at, now=now)
    if rollout.spec.action is RolloutAction.PLAN:
        return _ask(situation, gates.PRECHECK_GATES, (budgets.precheck_slots,))
    return _ask(situation, gates.GATES, budgets.BUDGETS)


def _ask(situation: Situation, doors: tuple[Gate, ...], limits: tuple[Budget, ...]) -> Choice:
    for gate in doors:
        if (closed := gate(situation)) is not None:
            return Choice(reason=closed.reason, message=closed.message)
    choice = Choice(nodes=situation.front.pending)
    for budget in limits:
        if choice.nodes:
            choice = budget(situation, choice.nodes)
    return Choice(nodes=choice.nodes) if choice.nodes else choice
