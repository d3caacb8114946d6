"""What to do with nodes that hold no slot: the writes that prepare them, and which of them to start now."""

from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout import budgets, claims, gates, retry
from nodeupgrade.domain.rollout.actions import Admit, Claim, Hold, NodeAction
from nodeupgrade.domain.rollout.admission import warnings
from nodeupgrade.domain.rollout.backoff import is_held_back
from nodeupgrade.domain.rollout.budgets import UNDECIDED, Budget, StartDecision, queued
from nodeupgrade.domain.rollout.failures import after_retry, record, with_record
from nodeupgrade.domain.rollout.gates import Gate, Situation
from nodeupgrade.domain.rollout.node_state import Place, candidate
from nodeupgrade.domain.rollout.rollout_view import RolloutView, view_rollout
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.rollout.waves import WavePosition, wave_position


def position_of(rollout: RolloutView, now: datetime) -> WavePosition:
    """Return the current wave; ``action: Plan`` ignores waves."""
    if rollout.spec.action is not RolloutAction.PLAN:
        return wave_position(rollout.upgrade, rollout.waves, now)
    pending = tuple(member for member in rollout.members.values() if member.place is Place.PENDING)
    return WavePosition(index=-1, pending=pending)


def decide_start(rollout: RolloutView, at: WavePosition, now: datetime) -> StartDecision:
    """Return the nodes that may be started now, or why none may."""
    if rollout.held and not rollout.planned:
        reason = Reason.QUEUED if rollout.spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
        return StartDecision(reason=reason, message=rollout.held[0].message)
    situation = Situation(rollout=rollout, position=at, now=now)
    if rollout.spec.action is RolloutAction.PLAN:
        return _evaluate(situation, gates.PRECHECK_GATES, (budgets.precheck_slots,))
    return _evaluate(situation, gates.GATES, budgets.BUDGETS)


def _evaluate(situation: Situation, all_gates: tuple[Gate, ...], all_budgets: tuple[Budget, ...]) -> StartDecision:
    for gate in all_gates:
        if (closed := gate(situation)) is not None:
            return StartDecision(reason=closed.reason, message=closed.message)
    decision = StartDecision(nodes=situation.position.pending)
    for budget in all_budgets:
        if decision.nodes:
            decision = budget(situation, decision.nodes)
    return StartDecision(nodes=decision.nodes) if decision.nodes else decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What to do next, and the view of the rollout that it is based on."""

    rollout: RolloutView
    position: WavePosition  # the current wave
    preparations: tuple[NodeAction, ...] = ()  # writes to tasks that must precede any admission
    # such writes that back off after a failure; other nodes do not wait for them
    held_back: tuple[NodeAction, ...] = ()
    decision: StartDecision = UNDECIDED  # nodes that may be started now, or why none may

    @property
    def unread(self) -> tuple[NodeName, ...]:
        """Nodes whose pods must be read before admission."""
        return tuple(s.node for s in self.decision.nodes if s.node not in self.rollout.fleet.pods)

    @property
    def admissions(self) -> tuple[Admit | Hold, ...]:
        """Nodes to admit now; if none is, but some are pending, the reason."""
        waiting = self.unread
        ready = [s.view for s in self.decision.nodes if s.view is not None and s.node not in waiting]
        if ready or not self.decision.message:
            return tuple(_admit(self.rollout, node) for node in ready)
        if not any(member.place in {Place.PENDING, Place.HELD} for member in self.rollout.members.values()):
            return ()
        return (Hold(reason=self.decision.reason, message=self.decision.message),)


def view(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> RolloutView:
    """Return the rollout as the planner sees it, with the failures that its status is about to keep."""
    return _view(with_record(fleet, record(fleet)), spec, now)


def _view(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> RolloutView:
    """Return the rollout; a retry that can be carried out clears the failures on record."""
    rollout = view_rollout(fleet, spec, now)
    if fleet.upgrade.retry_asked and retry.is_carried_out(rollout, now):
        return view_rollout(with_record(fleet, after_retry(fleet)), spec, now)
    return rollout


def intend(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> Intent:
    """Decide what to do next with nodes that hold no slot."""
    rollout = _view(fleet, spec, now)
    fleet, at = rollout.fleet, position_of(rollout, now)
    if fleet.upgrade.finished and not fleet.upgrade.retry_asked:
        return Intent(rollout=rollout, position=at)
    if (behind := queued(fleet, spec)) is not None:
        preparations, waiting = _split(claims.release_all(fleet), fleet, now)
        return Intent(rollout=rollout, position=at, preparations=preparations, held_back=waiting, decision=behind)
    decision = decide_start(rollout, at, now)
    preparations, waiting = _split(claims.prepare(rollout, now, stalled=decision.stalls), fleet, now)
    return Intent(
        rollout=rollout,
        position=at,
        preparations=preparations,
        held_back=waiting,
        decision=_prepared(rollout, decision, preparations, waiting),
    )


def _prepared(
    rollout: RolloutView,
    decision: StartDecision,
    preparations: tuple[NodeAction, ...],
    waiting: tuple[NodeAction, ...],
) -> StartDecision:
    """Limit a decision to nodes that are prepared.

    Nodes are claimed in the order in which they are upgraded, so the first ones need not wait until the whole fleet is
    claimed; unless claims are refused, since then it is not known who takes part.
    """
    others = any(not isinstance(action, Claim) for action in preparations)
    if rollout.fleet.upgrade.finished or others or (waiting and not rollout.planned):
        return UNDECIDED
    if not rollout.unclaimed or not claims.may_claim(rollout):
        return decision
    if claimed := tuple(takewhile(lambda member: member.task is not None, decision.nodes)):
        return StartDecision(nodes=claimed)
    return UNDECIDED


def _split(
    actions: tuple[NodeAction, ...], fleet: FleetSnapshot, now: datetime
) -> tuple[tuple[NodeAction, ...], tuple[NodeAction, ...]]:
    """Split writes into those that can be made now and those that back off."""
    waiting = tuple(action for action in actions if is_held_back(action, fleet.setbacks, now))
    return tuple(action for action in actions if action not in waiting), waiting


def _admit(rollout: RolloutView, node: NodeView) -> Admit:
    facts = candidate(rollout.fleet, rollout.spec, node, rollout.now)
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(facts))
    purpose = "be looked at for" if rollout.spec.action is RolloutAction.PLAN else f"go from {facts.current} to"
    message = f"node {node.name} takes a slot to {purpose} {facts.target}{notes}"
    return Admit(node=node.name, reason=Reason.ADMITTED, message=message)
