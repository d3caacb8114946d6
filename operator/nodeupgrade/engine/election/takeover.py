"""The first thing that a new leader writes: marks that make every write void that its predecessor still has on the way.

A write names the resourceVersion that it relies on, so it is void once the object has changed. A predecessor that was
paused in the middle of a write may send it any time later; objects that nobody has written since would accept it. So a
new leader first writes its epoch into the tasks of all nodes in flight, which a late write could start, and then into
the NodeUpgrade, which a late write could admit nodes with. Only then does it plan. Whoever meets the mark of a later
term knows that its own is over.
"""

import contextlib
from typing import Protocol

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.upgrade.object import EPOCH_MARK
from nodeupgrade.domain.election.epoch import outranks, term_of
from nodeupgrade.domain.rollout.select.membership import in_flight
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.ports.kube import TASKS, UPGRADES, KubeApi, NotFoundError, NotLeadingError, RejectedError


class Term(Protocol):
    """A leader's term of office."""

    @property
    def epoch(self) -> str:
        """What the leader marks objects with; differs from that of every other term."""
        ...

    def surpass(self, term: int) -> None:
        """Learn that objects bear the mark of this term, which is not over for all we know."""
        ...


def require_term(fleet: FleetSnapshot, term: Term) -> None:
    """Check that nobody has taken over the rollout since this term began, as far as the nodes in flight tell.

    The NodeUpgrade alone does not: it is read first, and another leader may have taken over before the tasks were read.

    Raises:
        NotLeadingError: Somebody has. The term is told; if it is valid after all, the next one will be later.
    """
    tasks = (fleet.tasks.get(name) for name in fleet.upgrade.status.in_flight)
    marks = (fleet.upgrade.epoch, *(task.epoch for task in tasks if task is not None))
    if later := [mark for mark in marks if outranks(mark, fleet.epoch)]:
        term.surpass(max(map(term_of, later)))
        raise NotLeadingError(f"the NodeUpgrade or one of its tasks bears the mark {later[0]} of another leader")


async def take_over(kube: KubeApi, fleet: FleetSnapshot) -> None:
    """Mark a rollout and its nodes in flight. If it is interrupted, all of it has to be done again.

    The NodeUpgrade comes last and on condition that it is the one from which the nodes in flight were read: no slot
    can have been taken since.

    Raises:
        ConflictError, NotFoundError: The NodeUpgrade has changed or is gone.
        RejectedError, UnavailableError: The NodeUpgrade cannot be written at the moment.
    """
    mark: Json = {"metadata": {"annotations": {EPOCH_MARK: fleet.epoch}}}
    for name in in_flight(fleet):
        if fleet.own_task(name) is not None:
            # A task that cannot be marked must not stop the other nodes; its slot is not freed before it is marked.
            with contextlib.suppress(NotFoundError, RejectedError):
                await kube.merge(TASKS, name, mark)
    await kube.merge(UPGRADES, fleet.upgrade.name, mark, resource_version=fleet.upgrade.resource_version)
