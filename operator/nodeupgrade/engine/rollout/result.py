"""What came of one call of a controller, and what it keeps in memory between calls."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import FreeSlot, Hold, NodeAction, Wait
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.engine.rollout.failure_history import FailureHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of reconciling one NodeUpgrade, or one of its nodes.

    Attributes:
        actions: what was decided, in order.
        applied: those of the actions that succeeded.
        conflicted: whether one did not, e.g. because of a concurrent write, so that it must be decided again.
        over: whether nothing is left to do until the object itself changes.
        upgrade: the NodeUpgrade as it was read; None if it does not exist.
        in_flight: the nodes that hold a slot now.
        wait_over_in: seconds until the first wait is over whose end is known; None if there is none.
        cost: CPU seconds that deciding took, in which nothing else could be done.
    """

    actions: tuple[NodeAction, ...] = ()
    applied: tuple[NodeAction, ...] = ()
    conflicted: bool = False
    over: bool = False
    upgrade: Upgrade | None = None
    in_flight: tuple[NodeName, ...] = ()
    wait_over_in: float | None = None
    cost: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether anything was written, or is to be."""
        return any(not isinstance(action, Wait | Hold) for action in self.actions)


@dataclass(slots=True)
class RolloutMemory:
    """What is kept of one NodeUpgrade; a new operator does without.

    Attributes:
        failures: writes that failed lately, and agents that ended early.
        done: nodes in flight with nothing left to be done, with the actions that free their slots. Whoever is listed
            is not touched any more: its slot may be gone at any moment.
        starts_unanswered: nodes whose start was not answered: it may have taken effect, or may yet, until their task is
            written.
        status_writes: counts the beginnings and ends of writes of the status; what was read across one is not recent.
        recent: what was read last.
        read_at: when that was begun, on the monotonic clock.
        reading: reads it anew, for all nodes that wait for it.
    """

    failures: FailureHistory = field(default_factory=FailureHistory)
    done: dict[NodeName, FreeSlot] = field(default_factory=dict)
    starts_unanswered: set[NodeName] = field(default_factory=set)
    status_writes: int = 0
    recent: FleetSnapshot | None = None
    read_at: float = 0.0
    reading: asyncio.Future[FleetSnapshot] | None = None


def wait_over_in(actions: Iterable[NodeAction], now: datetime) -> float | None:
    """Return the seconds until the first wait is over whose end is known; None if there is none."""
    ends = (action.until for action in actions if isinstance(action, Wait) and action.until is not None)
    return max(0.0, (first - now).total_seconds()) if (first := min(ends, default=None)) is not None else None
