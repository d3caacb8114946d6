"""The first thing that a new leader writes: marks that void every write that its predecessor still has on the way.

A write names the resourceVersion that it relies on, so it is void once the object has changed. A predecessor that was
paused in the middle of a write may send it any time later; objects that nobody has written since would accept it. So
a new leader first writes its epoch into the tasks of all nodes in flight, which a late write could start, and then
into the status of the NodeUpgrade, which a late write could admit nodes with. Only then does it plan. A leader that
finds the mark of a later term knows that its own is over. Authors of NodeUpgrades can write neither status nor tasks.
"""

import contextlib
from dataclasses import replace

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.object import EPOCH_MARK
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES, NotFoundError, RejectedError
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet.snapshot import FleetSnapshot


async def take_over(kube: TypedKube, fleet: FleetSnapshot) -> None:
    """Mark a rollout and its nodes in flight. If it is interrupted, all of it has to be done again.

    The NodeUpgrade comes last and on condition that it is the one from which the nodes in flight were read: no slot
    can have been taken since.

    Raises:
        ConflictError, NotFoundError: The NodeUpgrade has changed or is gone.
        RejectedError, UnavailableError: The NodeUpgrade cannot be written at the moment.
    """
    mark: Json = {"metadata": {"annotations": {EPOCH_MARK: fleet.epoch}}}
    for name in fleet.in_flight:
        if fleet.own_task(name) is not None:
            # A task that cannot be marked must not stop the other nodes; its slot is not freed before it is marked.
            with contextlib.suppress(NotFoundError, RejectedError):
                await kube.merge(TASKS, name, mark)
    upgrade = fleet.upgrade
    status = to_json(replace(upgrade.status, leader=fleet.epoch))
    await kube.replace_status(UPGRADES, upgrade.name, status, resource_version=upgrade.resource_version)
