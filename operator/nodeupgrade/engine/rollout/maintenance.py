"""Our condition MaintenanceInProgress on Nodes in flight, for tools that understand it (kubernetes enhancement 5683).

It is information for others and holds nothing up: one that cannot be set is left out. It goes with the cordon, and the
sweep removes what is left of it, for example after a person has uncordoned the node.
"""

import contextlib
from datetime import datetime

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.domain.nodes import MAINTENANCE_IN_PROGRESS, MAINTENANCE_REASON, NodeView
from nodeupgrade.ports.kube import NODES, ConflictError, KubeApi, NotFoundError, RejectedError, UnavailableError


async def announce(kube: KubeApi, node: NodeView, upgrade: str, now: datetime) -> None:
    """Set the condition, if the API server accepts that."""
    with contextlib.suppress(ConflictError, NotFoundError, RejectedError, UnavailableError):
        await kube.set_condition(NODES, node.name, MAINTENANCE_IN_PROGRESS, condition(upgrade, now))


async def withdraw(kube: KubeApi, node: NodeView) -> str:
    """Remove the condition, if it is there and ours, and return the Node's resourceVersion after that.

    Raises:
        ConflictError, NotFoundError: The Node has changed, maybe this very condition, or is gone.
        UnavailableError: The API server does not answer.
    """
    if not node.announced:
        return node.resource_version
    version = node.resource_version
    with contextlib.suppress(RejectedError):  # whoever has taken the right away keeps no node cordoned by it
        changed = await kube.set_condition(NODES, node.name, MAINTENANCE_IN_PROGRESS, None, resource_version=version)
        version = str(changed["metadata"]["resourceVersion"])
    return version


def condition(upgrade: str, now: datetime) -> Json:
    """Return the fields of the condition besides its type."""
    at = timestamp(now)
    return {
        "status": "True",
        "reason": MAINTENANCE_REASON,
        "message": f"NodeUpgrade {upgrade} exchanges the kubelet in place; the pods run on",
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }
