"""The budget of the whole cluster: how many nodes all rollouts together may take at a time, whoever wrote them."""

from dataclasses import dataclass

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.values import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBudget:
    """What whoever installs the operator allows. Percentages are of all nodes; 0 lets no node start."""

    max_in_flight: IntOrPercent | None = None  # nodes in flight; None for no limit
    max_unavailable: IntOrPercent | None = None  # nodes in flight, cordoned by anyone or not Ready; None for no limit

    @property
    def unlimited(self) -> bool:
        """Whether it limits nothing."""
        return self.max_in_flight is None and self.max_unavailable is None

    def room(self, nodes: int, in_flight: int, unavailable: int) -> int | None:
        """Return how many more of the cluster's nodes may be started, given those of all rollouts; None for no limit.

        ``unavailable`` nodes are in flight, cordoned by anyone or not Ready.
        """
        limits = ((self.max_in_flight, in_flight), (self.max_unavailable, unavailable))
        return min((max(0, limit.of(nodes) - taken) for limit, taken in limits if limit is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterUse:
    """How much of a cluster with a budget is in use besides one rollout."""

    budget: ClusterBudget
    nodes: int  # number of nodes of the cluster
    flying: frozenset[NodeName]  # nodes in flight of the other rollouts, and of those that were abandoned
    away: frozenset[NodeName]  # nodes that are cordoned by anyone or not Ready
