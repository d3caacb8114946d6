"""Cordons nodes in flight, and announces that with the condition MaintenanceInProgress (kubernetes enhancement 5683).

The condition only informs other tools: where it cannot be set, the node is cordoned without it. It is removed with the
cordon, and by the sweep, for example after a person has uncordoned the node.
"""

import contextlib
from datetime import datetime

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.task.object import UPGRADE_LABEL
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.cluster.kube_api import NODES, ConflictError, KubeApi, NotFoundError, RejectedError, UnavailableError
from nodeupgrade.cluster.nodes import CORDON_MANAGER, MAINTENANCE_IN_PROGRESS, MAINTENANCE_REASON, NodeView
from nodeupgrade.cluster.typed_objects import TypedKube


async def cordon(kube: TypedKube, node: NodeView, upgrade: Upgrade, *, announces: bool) -> None:
    """Cordon a node as it was read, record the owner of the cordon in the same write, and announce it if requested.

    Raises:
        ConflictError, NotFoundError: The Node has changed, or is gone.
        RejectedError, UnavailableError: It cannot be written at the moment.
    """
    await _set_schedulable(kube, node, upgrade, node.resource_version)
    if announces:
        with contextlib.suppress(ConflictError, NotFoundError, RejectedError, UnavailableError):
            announced = condition(upgrade.name, kube.utcnow())
            await kube.set_condition(NODES, node.name, MAINTENANCE_IN_PROGRESS, announced)


async def uncordon(kube: KubeApi, node: NodeView) -> None:
    """Make a node schedulable again, and withdraw the condition first.

    Raises:
        ConflictError, NotFoundError, RejectedError, UnavailableError: As for cordon().
    """
    await _set_schedulable(kube, node, None, await withdraw(kube, node))


async def _set_schedulable(kube: KubeApi, node: NodeView, by: Upgrade | None, version: str) -> None:
    await kube.merge(NODES, node.name, cordon_patch(by), resource_version=version, field_manager=CORDON_MANAGER)


def cordon_patch(by: Upgrade | None) -> Json:
    """Return the patch that cordons a node for a NodeUpgrade, or uncordons it if None; the label is for people."""
    return {
        "metadata": {
            "annotations": {CORDON_ANNOTATION: None if by is None else by.uid},
            "labels": {UPGRADE_LABEL: None if by is None else by.name},
        },
        "spec": {"unschedulable": None if by is None else True},
    }


async def withdraw(kube: KubeApi, node: NodeView) -> str:
    """Remove the condition, if it is there and ours, and return the Node's resourceVersion after that.

    Raises:
        ConflictError, NotFoundError: The Node has changed, maybe this very condition, or is gone.
        UnavailableError: The API server does not answer.
    """
    if not node.announced:
        return node.resource_version
    version = node.resource_version
    with contextlib.suppress(RejectedError):  # a missing permission keeps no node cordoned
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
