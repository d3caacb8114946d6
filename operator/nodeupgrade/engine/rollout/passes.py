"""What a pass over one rollout saves, and what comes of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.domain.rollout.actions import Blank, Claim, Hold, NodeAction, Reopen, Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """How passes save work and waiting. By default they do not: every pass does everything, and waits for it.

    Attributes:
        status_interval: minimum interval between status writes that only update counters.
        rest: how many times as long as planning a whole rollout takes until it is planned again; see ``Cadence``.
        patience: for how many seconds a pass waits for its writes; see ``Lanes``.
        follow: for how many seconds after a pass has read what it rests on its writes may lead on to others, without
            another pass; also, no pass then waits until the pods of a node in flight are read. 0: not at all.
        clock: seconds, monotonic.
    """

    status_interval: timedelta = timedelta(0)
    rest: float = 0.0
    patience: float | None = None
    follow: float = 0.0
    clock: Callable[[], float] = time.monotonic


# How often a pass looks at a whole rollout; in between, passes attend to the nodes in flight only.
#
# What a pass over a whole rollout costs grows with the fleet, and one that attends to the nodes in flight costs the
# same for any fleet. So the former take a small share of the time, and a node in flight never waits for the next one.

REST = 30.0
"""How many times as long as it took to plan a whole rollout, until it is planned again."""


THRIFTY = PassOptions(status_interval=timedelta(seconds=5), rest=REST, patience=0.1, follow=3.0)
"""The pace of an operator in a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The result of one pass, and whether to reconcile again.

    Attributes:
        actions: the planned actions, in the order of the plan, and those that have followed on some.
        conflicted: whether an action did not succeed, e.g. because of a concurrent write, so that it is requeued.
        in_flight: whether a node holds a slot, so that its task is worth watching.
        over: whether nothing is left to do until the object itself changes.
        applied: the actions that succeeded, those included for which the last pass did not wait.
        upgrade: the NodeUpgrade as it was read; None if it does not exist.
        whole_in: seconds until the rollout is due as a whole; None if this pass has planned it.
        cost: CPU seconds that planning took, in which nothing else could be done.
        wait_over_in: seconds until the first wait is over whose end is known; None if there is none.
    """

    actions: tuple[NodeAction, ...] = ()
    conflicted: bool = False
    in_flight: bool = False
    over: bool = False
    applied: tuple[NodeAction, ...] = ()
    upgrade: Upgrade | None = None
    whole_in: float | None = None
    cost: float = 0.0
    wait_over_in: float | None = None

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return any(not isinstance(action, Wait | Hold) for action in self.actions)


REST_WHILE_A_SLOT_WAITS = 5.0
"""Likewise, while a slot can be given to another node."""

LONGEST_REST_SECONDS = 3.0
"""Longest time for which a free slot may stay empty because of that."""

_MORE_TO_COME = (Claim, Reopen, Blank)
"""Actions of which one pass carries out only so many."""


@dataclass(slots=True)
class Cadence:
    """When one rollout is planned as a whole.

    Args:
        rest: See REST; 0 means on every pass.
        clock: Seconds, monotonic.
    """

    rest: float = REST
    clock: Callable[[], float] = time.monotonic
    _due: float = 0.0
    _due_for_a_slot: float = 0.0
    _asked: Upgrade | None = None

    def left(self, upgrade: Upgrade) -> float:
        """Return the seconds until the rollout is due as a whole; 0 at once if anyone asks something else of it."""
        return 0.0 if _question(upgrade) != self._asked else max(0.0, self._due - self.clock())

    def planned(self, upgrade: Upgrade, actions: tuple[NodeAction, ...], cost: float) -> None:
        """Note that the rollout was planned as a whole, which took ``cost`` seconds."""
        goes_on = any(isinstance(action, _MORE_TO_COME) for action in actions)
        self._asked, now = _question(upgrade), self.clock()
        self._due = now + (0.0 if goes_on else min(LONGEST_REST_SECONDS, self.rest * cost))
        self._due_for_a_slot = now + REST_WHILE_A_SLOT_WAITS * cost

    def slot_waits(self) -> None:
        """Make the rollout due sooner: a slot can be given to another node."""
        self._due = min(self._due, self._due_for_a_slot)

    def hurry(self) -> None:
        """Make the rollout due at once: its last plan was not carried out."""
        self._due = 0.0


class Stopwatch:
    """Adds up the CPU time of this thread; what others compute meanwhile does not count."""

    def __init__(self) -> None:
        self.seconds = self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.thread_time() - self._began


def _question(upgrade: Upgrade) -> Upgrade:
    """Return what people and other controllers decide about a NodeUpgrade, without what we report."""
    return replace(upgrade, resource_version="", status=UpgradeStatus())
