"""Read a fleet as the planner needs it. Read-only."""

from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.live_fleet import LiveFleet
from nodeupgrade.cluster.deschedulers import read_deschedulers
from nodeupgrade.cluster.kube_api import PODS, UPGRADES, ForbiddenError, KubeApi, NotFoundError
from nodeupgrade.fleet.controllers.snapshots import gather
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN, GuardWriter
from nodeupgrade.fleet.snapshot import FleetSnapshot

OPERATOR_LABELS = {"app.kubernetes.io/name": "nodeupgrade-operator"}
"""Labels of the operator's pod, as in the manifests."""

NOT_CREATED = "not-created"
"""UID of a NodeUpgrade that exists only in a file: no task and no cordon can belong to it."""


async def read_fleet(kube: KubeApi, upgrade: Upgrade) -> FleetSnapshot:
    """Read what the operator reads: nodes, tasks, other rollouts, whether the readiness guard is available. No pods.

    Raises:
        NoClusterAnswerError: the cluster does not have the CRDs.
    """
    source = LiveFleet(kube, None, read_upgrade)
    try:
        guard, own = GuardWriter(kube, INSTALLED_IN), await operator_node(kube)
        found = await read_deschedulers(kube)
        fleet = replace(await gather(kube, upgrade, source, guard), operator_node=own, deschedulers=found)
    except NotFoundError:
        raise cluster_objects.not_installed(UPGRADES) from None
    return replace(fleet, active_upgrades=fleet.active_upgrades | {upgrade.uid})


async def operator_node(kube: KubeApi) -> NodeName | None:
    """Find the node that the operator runs on by its pod; None if that is unknown."""
    try:
        pods = await kube.list(PODS.within(INSTALLED_IN), labels=OPERATOR_LABELS)
    except ForbiddenError:
        return None
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    running = [pod for pod in staying if (pod.get("status") or {}).get("phase") == "Running"]
    nodes = {NodeName(pod["spec"]["nodeName"]) for pod in running}
    return nodes.pop() if len(nodes) == 1 else None


def as_if_applied(document: Json, live: Json | None, now: datetime) -> Upgrade:
    """Return the NodeUpgrade as it would be after an apply: a live object keeps its identity and status."""
    written = document["metadata"]
    kept = {} if live is None else live["metadata"]
    annotations = {**(kept.get("annotations") or {}), **(written.get("annotations") or {})}
    metadata = {
        "uid": NOT_CREATED,
        "resourceVersion": "",
        "creationTimestamp": timestamp(now),
        **kept,
        "name": written["name"],
        "annotations": annotations,
    }
    return read_upgrade({**document, "metadata": metadata, "status": (live or {}).get("status", {})})
