"""Two rollouts that want the same nodes: the older one goes first, and a node is held by one at a time."""

from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.pace.budgets import Choice
from nodeupgrade.domain.rollout.select.membership import selects
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

_UNDATED = datetime.max.replace(tzinfo=UTC)


def queued(fleet: FleetSnapshot, spec: UpgradeSpec) -> Choice | None:
    """Say that this rollout waits as a whole because an older one, which has not ended, selects one of its nodes.

    Only a rollout whose plan is not made waits so; once it holds all its nodes, the claims decide.
    """
    upgrade = fleet.upgrade
    if upgrade.status.planned_at is not None or upgrade.deleting or spec.action is RolloutAction.ABORT:
        return None
    if (found := _ahead(fleet, spec)) is None:
        return None
    rival, node = found
    reason = Reason.QUEUED if spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
    because = f"NodeUpgrade {rival.name}, which is older and has not ended, selects node {node} too"
    return Choice(reason=reason, message=sentence(reason, because))


def _ahead(fleet: FleetSnapshot, spec: UpgradeSpec) -> tuple[Upgrade, NodeName] | None:
    older = [rival for rival in sorted(fleet.rivals, key=_age) if _age(rival) < _age(fleet.upgrade)]
    if not older:
        return None
    ours = sorted(name for name, node in fleet.nodes.items() if selects(spec.nodes, node))
    for rival in older:
        if rival.spec is None:
            continue
        terms = rival.spec.nodes
        if (shared := next((name for name in ours if selects(terms, fleet.nodes[name])), None)) is not None:
            return rival, shared
    return None


def _age(upgrade: Upgrade) -> tuple[datetime, str]:
    return upgrade.created_at or _UNDATED, upgrade.name
