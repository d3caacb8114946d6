"""Which nodes are started now: every gate is asked, then every budget."""

from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction
from nodeupgrade.domain.rollout.pace import budgets, gates
from nodeupgrade.domain.rollout.pace.budgets import Budget, Choice
from nodeupgrade.domain.rollout.pace.gates import Gate, Situation
from nodeupgrade.domain.rollout.select.node_state import Place
from nodeupgrade.domain.rollout.select.rollout_view import Survey
from nodeupgrade.domain.rollout.select.waves import Front, front


def survey_front(survey: Survey, now: datetime) -> Front:
    """Find the wave whose turn it is; for ``action: Plan`` waves do not matter."""
    if survey.spec.action is not RolloutAction.PLAN:
        return front(survey.upgrade, survey.waves, now)
    pending = tuple(standing for standing in survey.standings.values() if standing.place is Place.PENDING)
    return Front(index=-1, pending=pending)


def choose(survey: Survey, at: Front, now: datetime) -> Choice:
    """Choose the nodes that may be started now, or say what they wait for."""
    if survey.held and not survey.planned:
        reason = Reason.QUEUED if survey.spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
        return Choice(reason=reason, message=survey.held[0].message)
    situation = Situation(survey=survey, front=at, now=now)
    if survey.spec.action is RolloutAction.PLAN:
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
