"""Reading what a rollout is about, as the planner wants it; nothing is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from nodeupgrade.cli import reading
from nodeupgrade.domain.rollout.fleet import FleetSnapshot
from nodeupgrade.domain.rollout.guarding import needs_parameters
from nodeupgrade.domain.upgrade import Upgrade
from nodeupgrade.domain.upgrade_spec import parse_upgrade
from nodeupgrade.domain.views import view_node
from nodeupgrade.domain.wire import Json, timestamp
from nodeupgrade.engine.guard_parameters import INSTALLED_IN, read_parameters
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.ports.kube import NODES, KubeApi

NOT_CREATED = "not-created"
"""UID of a NodeUpgrade that is in a file only: no task and no cordon can be its own."""


async def read_fleet(kube: KubeApi, upgrade: Upgrade) -> FleetSnapshot:
    """Read all nodes, tasks, other rollouts and whether nodes can be guarded; no pods."""
    others = [each for each in await reading.upgrades(kube) if each.uid != upgrade.uid]
    active = [each for each in others if not each.finished or each.status.in_flight]
    fleet = FleetSnapshot(
        upgrade=upgrade,
        server=KubeletVersion.parse(await kube.server_version()),
        nodes={node.name: node for node in map(view_node, await kube.list(NODES))},
        tasks={task.name: task for task in await reading.tasks(kube)},
        active_upgrades=frozenset({upgrade.uid, *(each.uid for each in active)}),
        rivals=tuple(active),
    )
    return replace(fleet, guard=await read_parameters(kube, INSTALLED_IN)) if needs_parameters(fleet) else fleet


def as_if_applied(document: Json, live: Json | None, now: datetime) -> Upgrade:
    """Look at a document as the control plane would once it is applied: what is live keeps identity and status."""
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
    return parse_upgrade({**document, "metadata": metadata, "status": (live or {}).get("status", {})})
