"""Budgets: each limits which of the pending nodes may be started now, and explains what holds back the others.

They narrow the same list one after the other, so that the tightest decides and gives the reason.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import RunVerdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.strategy import Growth, GrowthType, TopologyMode
from nodeupgrade.api.upgrade.waves import SLOTS
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.fleet.decide import gates
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.waves import WaveRoster

Nodes: TypeAlias = tuple[NodeState, ...]

_STALLING = frozenset(
    {
        Reason.FAILURE_THRESHOLD_REACHED,
        Reason.SAME_CAUSE_REPEATED,
        Reason.ROLLBACK_FAILED,
        Reason.TOO_MANY_UNAVAILABLE,
        Reason.TIMED_OUT,
        Reason.HEALTH_CHECK_FAILED,
        Reason.HEALTH_CHECK_ERROR,
        Reason.OVERLAP_CONFLICT,
    }
)
"""Reasons that stall a rollout until a person acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDecision:
    """The nodes that may be started now; if there are none, ``reason`` and ``message`` say why."""

    nodes: Nodes = ()
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    behind: bool = False  # whether the whole rollout waits for an older one

    @property
    def stalls(self) -> bool:
        """Whether a person is needed before the rollout can continue."""
        return self.reason in _STALLING


QUEUED = frozenset({Reason.QUEUED, Reason.OVERLAP_CONFLICT})
"""Reasons why a rollout waits for another one, or cannot continue because of it."""

DEFAULT_UNAVAILABLE = IntOrPercent(10, percent=True)
PRECHECKED_AT_ONCE = IntOrPercent(10, percent=True)
UNDECIDED = StartDecision()
_UNDATED = datetime.max.replace(tzinfo=UTC)

Budget = Callable[[RolloutView, Nodes], StartDecision]


def decide_start(rollout: RolloutView) -> StartDecision:
    """Return the nodes that may be started now, or why none may: the first closed gate, or the tightest budget."""
    if (behind := queued(rollout)) is not None:
        return behind
    planning = rollout.spec.action is RolloutAction.PLAN
    if rollout.held and not rollout.planned:
        return StartDecision(reason=_behind(rollout.spec), message=rollout.held[0].message)
    due = gates.PRECHECK_GATES if planning else gates.GATES
    if (closed := gates.closed(due, gates.of_rollout(rollout))) is not None:
        return StartDecision(reason=closed.reason, message=closed.message)
    decision = StartDecision(nodes=rollout.position.pending)
    for budget in (precheck_slots,) if planning else BUDGETS:
        if decision.nodes:
            decision = budget(rollout, decision.nodes)
    return StartDecision(nodes=decision.nodes) if decision.nodes else decision


def queued(rollout: RolloutView) -> StartDecision | None:
    """Return why the whole rollout waits: an older one that has not ended selects one of its nodes; else None.

    This applies only until the plan is made; after that, the claims decide.
    """
    older = sorted((rival for rival in rollout.ledger.rivals if _age(rival) < _age(rollout.upgrade)), key=_age)
    if not older or rollout.upgrade.status.planned_at is not None or rollout.is_called_off:
        return None
    nodes = sorted((m.node, m.view.labels) for m in rollout.members.values() if m.view is not None)
    ours = [(name, labels) for name, labels in nodes if rollout.spec.nodes.selects(name, labels)]
    for rival in older:
        terms = None if rival.spec is None else rival.spec.nodes
        if terms is not None and (shared := next((name for name, labels in ours if terms.selects(name, labels)), None)):
            because = f"NodeUpgrade {rival.name}, which is older and has not ended, selects node {shared} too"
            reason = _behind(rollout.spec)
            return StartDecision(reason=reason, message=sentence(reason, because), behind=True)
    return None


def _behind(spec: UpgradeSpec) -> Reason:
    return Reason.QUEUED if spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT


def _age(upgrade: Upgrade) -> tuple[datetime, str]:
    return upgrade.created_at or _UNDATED, upgrade.name


def max_concurrent(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply ``strategy.maxConcurrent``: limit the nodes in flight, never more than there are slots."""
    return _as_many(rollout, nodes, concurrency(rollout))


def wave_concurrency(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply the ``maxConcurrent`` of each wave to its own nodes."""
    limits = {
        wave.name: wave.terms.max_concurrent.of(len(wave.members))
        for wave in rollout.waves
        if wave.terms.max_concurrent is not None
    }
    flying = Counter(member.wave for member in _in_flight(rollout))
    chosen = _fitting(nodes, flying, lambda node: node.wave, lambda wave: limits.get(str(wave), SLOTS))
    return StartDecision(nodes=chosen, message="as many nodes of the wave are in flight as its maxConcurrent allows")


def max_unavailable(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply ``strategy.maxUnavailable``: limit the nodes in flight, cordoned by anyone or not Ready.

    Starting a node that is already unavailable does not increase their number.
    """
    unavailable = sum(is_unavailable(member) for member in rollout.members.values())
    free, limit = unavailable_limit(rollout) - unavailable, unavailable_limit(rollout)
    chosen = []
    for node in nodes:
        if not is_unavailable(node):
            if free <= 0:
                continue
            free -= 1
        chosen.append(node)
    because = f"{counted(unavailable, 'node')} of the rollout unavailable, at most {limit} allowed"
    if rollout.flying:
        return StartDecision(nodes=tuple(chosen), message=because)
    reason = Reason.TOO_MANY_UNAVAILABLE
    return StartDecision(nodes=tuple(chosen), reason=reason, message=sentence(reason, because))


def topology(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply ``strategy.topology``: limit the nodes in flight per domain and, if requested, go domain by domain."""
    if (rule := rollout.spec.strategy.topology) is None:
        return StartDecision(nodes=nodes)

    def domain(member: NodeState) -> str:
        return "" if member.view is None else member.view.labels.get(rule.key, "")

    flying = Counter(domain(member) for member in _in_flight(rollout))
    if rule.mode is TopologyMode.ZONE_BY_ZONE:
        busy = flying or {domain(node): 1 for node in nodes}
        current = min(busy, key=lambda name: (name == "", name))
        nodes = tuple(node for node in nodes if domain(node) == current)
    chosen = _fitting(nodes, flying, domain, lambda _: rule.max_per_domain)
    return StartDecision(nodes=chosen, message="as many nodes of the domain are in flight as strategy.topology allows")


def growth(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply ``strategy.growth``: begin each wave with one node, and allow more as nodes succeed."""
    rule, at = rollout.spec.strategy.growth, rollout.position.index
    limit = concurrency(rollout)
    if at < len(rollout.waves):
        wave = rollout.waves[at]
        own = wave.terms.max_concurrent
        limit = limit if own is None else min(limit, own.of(len(wave.members)))
        limit = grown(rule, limit, _successes(wave))
    return _as_many(rollout, nodes, limit, " now, by strategy.growth")


def node_interval(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply ``strategy.nodeInterval``: pause after a success."""
    interval = rollout.spec.strategy.node_interval
    ends = [
        verdict.decided_at + interval
        for verdict in _decided(rollout.members.values())
        if verdict.outcome is Verdict.SUCCEEDED and verdict.decided_at is not None
    ]
    if not interval or not ends or rollout.now >= max(ends):
        return StartDecision(nodes=nodes)
    return StartDecision(message=f"strategy.nodeInterval lets the next node start at {timestamp(max(ends))}")


def cluster(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Apply the operator's own limits for the whole cluster, over all rollouts."""
    if (use := rollout.ledger.cluster) is None:
        return StartDecision(nodes=nodes)
    flying = use.flying.union(rollout.flying)
    unavailable = len(use.away | flying)
    free = use.budget.room(nodes=use.nodes, in_flight=len(flying), unavailable=unavailable)
    because = f"{counted(len(flying), 'node')} of the cluster in flight, {unavailable} unavailable"
    message = sentence(Reason.CLUSTER_BUDGET_REACHED, because)
    return StartDecision(nodes=nodes[:free], reason=Reason.CLUSTER_BUDGET_REACHED, message=message)


BUDGETS: tuple[Budget, ...] = (
    node_interval,
    topology,
    wave_concurrency,
    max_concurrent,
    growth,
    max_unavailable,
    cluster,
)


def precheck_slots(rollout: RolloutView, nodes: Nodes) -> StartDecision:
    """Limit concurrent prechecks (``action: Plan``): at least a tenth of the nodes, since they disturb no workload."""
    limit = min(SLOTS, max(concurrency(rollout), PRECHECKED_AT_ONCE.of(len(rollout.members))))
    return _as_many(rollout, nodes, limit)


def concurrency(rollout: RolloutView) -> int:
    """Return how many nodes ``strategy.maxConcurrent`` allows in flight."""
    return min(SLOTS, rollout.spec.strategy.max_concurrent.of(len(rollout.members)))


def unavailable_limit(rollout: RolloutView) -> int:
    """Return how many nodes may be unavailable; the default is a tenth, at least one more than may be in flight."""
    limit = rollout.spec.strategy.max_unavailable
    if limit is not None:
        return limit.of(len(rollout.members))
    return max(DEFAULT_UNAVAILABLE.of(len(rollout.members)), concurrency(rollout) + 1)


def is_unavailable(member: NodeState) -> bool:
    """Report whether workloads cannot rely on a node: it is in flight, unschedulable or not Ready."""
    node = member.view
    return member.place is Place.IN_FLIGHT or (node is not None and (node.unschedulable or not node.ready))


def _as_many(rollout: RolloutView, nodes: Nodes, limit: int, why: str = "") -> StartDecision:
    taken = len(rollout.flying)
    message = f"{counted(taken, 'node')} in flight and {limit} may be{why}"
    return StartDecision(nodes=nodes[: max(0, limit - taken)], message=message)


def _fitting(
    nodes: Nodes, taken: Counter[str], key: Callable[[NodeState], str], limit: Callable[[Hashable], int]
) -> Nodes:
    """Return the nodes, in order, for which their group (given by ``key``) has room."""
    counts, chosen = Counter(taken), []
    for node in nodes:
        group = key(node)
        if counts[group] < limit(group):
            counts[group] += 1
            chosen.append(node)
    return tuple(chosen)


def _in_flight(rollout: RolloutView) -> list[NodeState]:
    return [rollout.members[name] for name in rollout.flying]


def _successes(wave: WaveRoster) -> list[bool]:
    ends = [(str(each.decided_at), each.outcome is Verdict.SUCCEEDED) for each in _decided(wave.members)]
    ends += [(str(each.time), False) for each in wave.departed]
    return [succeeded for _, succeeded in sorted(ends, key=lambda end: end[0])]


def _decided(members: Iterable[NodeState]) -> list[RunVerdict]:
    """Return the verdicts on upgrades, in the order in which they were decided."""
    verdicts = (s.task.verdict for s in members if s.judged is not None and s.task is not None)
    known = [verdict for verdict in verdicts if verdict is not None and verdict.decided_at is not None]
    return sorted(known, key=lambda verdict: (str(verdict.decided_at), verdict.run_id))


def grown(rule: Growth, limit: int, outcomes: Iterable[bool]) -> int:
    """Return how many nodes of a wave may be in flight at the same time.

    Args:
        rule: ``strategy.growth``.
        limit: The number that other rules allow; the result exceeds neither it nor the rule's cap.
        outcomes: Whether each finished node of the wave succeeded, in the order of the verdicts.
    """
    if rule.type is GrowthType.FIXED:
        return limit
    ceiling = limit if rule.cap is None else max(1, min(limit, rule.cap.of(limit)))
    successes = 0
    for succeeded in outcomes:
        successes = successes + 1 if succeeded else 0
    width = 1
    while width < ceiling and successes >= width:
        successes -= width
        width = width + rule.factor if rule.type is GrowthType.LINEAR else width * max(2, rule.factor)
    return min(width, ceiling)
