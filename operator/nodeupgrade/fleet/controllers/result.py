"""What came of one call of a controller."""

from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.actions import Hold, NodeAction, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of reconciling one NodeUpgrade, or one of its nodes."""

    actions: tuple[NodeAction, ...] = ()  # what was decided, in order
    applied: tuple[NodeAction, ...] = ()  # those of the actions that succeeded
    # whether one did not, e.g. because of a concurrent write, so that it must be decided again
    conflicted: bool = False
    over: bool = False  # whether nothing is left to do until the object itself changes
    upgrade: Upgrade | None = None  # the NodeUpgrade as it was read; None if it does not exist
    in_flight: tuple[NodeName, ...] = ()  # the nodes that hold a slot now
    wait_over_in: float | None = None  # seconds until the first wait is over whose end is known; None if there is none
    cost: float = 0.0  # CPU seconds that deciding took, in which nothing else could be done

    @property
    def changed(self) -> bool:
        """Whether anything was written, or is to be."""
        return any(not isinstance(action, Wait | Hold) for action in self.actions)

    def waiting_at(self, now: datetime) -> "Result":
        """Return the result with the seconds until the first wait is over whose end is known."""
        ends = [action.until for action in self.actions if isinstance(action, Wait) and action.until is not None]
        return replace(self, wait_over_in=max(0.0, (min(ends) - now).total_seconds())) if ends else self
