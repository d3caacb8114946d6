"""Overlapping rollouts: the older one goes first, and only one at a time holds a node."""

from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import OverlapPolicy, RolloutAction, UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.api.wording import sentence
from nodeupgrade.fleet.decide.membership import selects
from nodeupgrade.fleet.decide.start_decision import StartDecision
from nodeupgrade.fleet.snapshot import FleetSnapshot

_UNDATED = datetime.max.replace(tzinfo=UTC)


def queued(fleet: FleetSnapshot, spec: UpgradeSpec) -> StartDecision | None:
    """Return why the whole rollout waits: an older one that has not ended selects one of its nodes; else None.

    This applies only until the plan is made; after that, the claims decide.
    """
    upgrade = fleet.upgrade
    if upgrade.status.planned_at is not None or upgrade.deleting or spec.action is RolloutAction.ABORT:
        return None
    if (overlap := _ahead(fleet, spec)) is None:
        return None
    rival, node = overlap
    reason = Reason.QUEUED if spec.overlap_policy is OverlapPolicy.QUEUE else Reason.OVERLAP_CONFLICT
    because = f"NodeUpgrade {rival.name}, which is older and has not ended, selects node {node} too"
    return StartDecision(reason=reason, message=sentence(reason, because), behind=True)


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
