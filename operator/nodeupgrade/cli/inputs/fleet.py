"""Read a fleet as the planner needs it. Read-only."""

from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.live_fleet import LiveFleet
from nodeupgrade.cli.program import warn
from nodeupgrade.cluster.deschedulers import read_deschedulers
from nodeupgrade.cluster.kube_api import CONFIGMAPS, PODS, UPGRADES, ForbiddenError, KubeApi, NotFoundError
from nodeupgrade.fleet.actions import GuardParameters
from nodeupgrade.fleet.controllers.snapshots import gather
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN, GuardWriter
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from nodeupgrade.fleet.snapshot import FleetSnapshot

OPERATOR_LABELS = {"app.kubernetes.io/name": "nodeupgrade-operator"}
"""Labels of the operator's pod, as in the manifests."""

NOT_CREATED = "not-created"
"""UID of a NodeUpgrade that exists only in a file: no task and no cordon can belong to it."""


async def read_fleet(kube: KubeApi, upgrade: Upgrade, *, quiet: bool = False) -> FleetSnapshot:
    """Read what the operator reads: nodes, tasks, other rollouts, whether the readiness guard is available. No pods.

    What the user may not read, and the operator may, is no finding: unless ``quiet``, a warning names it.

    Raises:
        NoClusterAnswerError: the cluster does not have the CRDs.
    """
    source = LiveFleet(kube, None, read_upgrade)
    try:
        guard, own = GuardWriter(kube, INSTALLED_IN), await operator_node(kube)
        deschedulers = await read_deschedulers(kube)
        fleet = await gather(kube, upgrade, source, guard)
    except NotFoundError:
        raise cluster_objects.not_installed(UPGRADES) from None
    hidden = {each.name: Reason.DESCHEDULER_EVICTS for each in deschedulers if each.denied and _cordons(upgrade)}
    if fleet.needs_guard and fleet.guard is None and not _lacks_guard(upgrade) and await guard_is_hidden(kube):
        fleet = replace(fleet, guard=GuardParameters(data={}, resource_version=""))
        if upgrade.spec is not None and upgrade.spec.verify.readiness_guard is GuardPolicy.REQUIRE:
            hidden[f"{INSTALLED_IN}/{GUARD_NAME}"] = Reason.READINESS_GUARD_UNAVAILABLE
    for name, reason in hidden.items() if not quiet else ():
        unknown = f"whether the operator refuses nodes for it ({reason}) is unknown"
        warn(f"cannot get ConfigMap {name} because you may not; {unknown}")
    return replace(
        fleet,
        operator_node=own,
        deschedulers=tuple(each for each in deschedulers if not each.denied),
        active_upgrades=fleet.active_upgrades | {upgrade.uid},
    )


async def guard_is_hidden(kube: KubeApi) -> bool:
    """Report whether the user may not read the parameters of the readiness guard."""
    try:
        await kube.get(CONFIGMAPS.within(INSTALLED_IN), GUARD_NAME)
    except ForbiddenError:
        return True
    except NotFoundError:
        return False
    return False


def _cordons(upgrade: Upgrade) -> bool:
    return upgrade.spec is not None and upgrade.spec.nodes.cordon


def _lacks_guard(upgrade: Upgrade) -> bool:
    """Report whether the operator, which may read them, has said that no node can be guarded."""
    told = upgrade.status.condition(ConditionType.READINESS_GUARDED)
    return told.reason == Reason.READINESS_GUARD_UNAVAILABLE and told.observed_generation == upgrade.generation


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
    applied = read_upgrade({**document, "metadata": metadata, "status": (live or {}).get("status", {})})
    if live is None or applied.spec == read_upgrade(live).spec:
        return applied
    return replace(applied, generation=applied.generation + 1)  # what conditions say is of the spec before
