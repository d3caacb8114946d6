"""What a pass over one rollout saves, and what comes of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Wait
from nodeupgrade.engine.rollout.cadence import REST


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
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


THRIFTY = Pace(status_interval=timedelta(seconds=5), rest=REST, patience=0.1, follow=3.0)
"""The pace of an operator in a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
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
