"""The budget of the whole cluster: how many nodes all rollouts together may take at a time, whoever wrote them."""

from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.int_or_percent import IntOrPercent


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBudget:
    """What whoever installs the operator allows. Percentages are of all nodes; 0 lets no node start."""

    max_in_flight: IntOrPercent | None = None  # nodes in flight; None for no limit
    max_unavailable: IntOrPercent | None = None  # nodes in flight, cordoned by anyone or not Ready; None for no limit

    @property
    def unlimited(self) -> bool:
        """Whether it limits nothing."""
        return self.max_in_flight is None and self.max_unavailable is None


def room(budget: ClusterBudget, nodes_total: int, in_flight_total: int, unavailable_total: int) -> int | None:
    """Return how many more nodes may be started, whatever the budgets of their rollouts; None for no limit.

    Args:
        budget: The limits.
        nodes_total: Nodes of the cluster.
        in_flight_total: Slots that are taken, of all rollouts.
        unavailable_total: Nodes of the cluster in flight, cordoned by anyone or not Ready.
    """

    def rooms() -> Iterator[int]:
        if budget.max_in_flight is not None:
            yield budget.max_in_flight.of(nodes_total) - in_flight_total
        if budget.max_unavailable is not None:
            yield budget.max_unavailable.of(nodes_total) - unavailable_total

    tightest = min(rooms(), default=None)
    return None if tightest is None else max(0, tightest)
