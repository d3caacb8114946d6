"""How every node of a rollout stands, derived from objects alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodeupgrade.domain.admission import Candidate, judge
from nodeupgrade.domain.fleet import FleetSnapshot
from nodeupgrade.domain.placement import selects
from nodeupgrade.domain.reasons import Reason, sentence
from nodeupgrade.domain.task import Task
from nodeupgrade.domain.upgrade_terms import UpgradeSpec
from nodeupgrade.domain.values import NodeName
from nodeupgrade.domain.views import NodeView


class Place(StrEnum):
    """Where a node is on its way."""

    PENDING = "Pending"
    """May be admitted as soon as there is a slot."""
    IN_FLIGHT = "InFlight"
    """Holds a slot."""
    SKIPPED = "Skipped"
    """Needs nothing."""
    REFUSED = "Refused"
    """Must not be touched as things are; looked at again on every pass."""
    FINISHED = "Finished"
    """Its run is over and judged; the task's verdict says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One node; reason and message for SKIPPED and REFUSED, the task for IN_FLIGHT and FINISHED."""

    node: NodeName
    place: Place
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    task: Task | None = None


def in_flight(fleet: FleetSnapshot) -> tuple[NodeName, ...]:
    """List the nodes that hold a slot.

    A task of ours without a verdict holds one even if the status does not say so: the status may have been edited
    or restored from a backup, and the budget must not be overrun for it.
    """
    unjudged = (task.name for task in fleet.tasks.values() if _is_ours(fleet, task) and task.verdict is None)
    return tuple(sorted({*fleet.upgrade.status.in_flight, *unjudged}))


def stand(fleet: FleetSnapshot, spec: UpgradeSpec) -> Mapping[NodeName, Standing]:
    """Say how every selected node stands, in the order in which they are admitted."""
    flying = set(in_flight(fleet))
    judged = {task.name for task in fleet.tasks.values() if _is_ours(fleet, task)}
    chosen = {name for name, node in fleet.nodes.items() if selects(spec.nodes, node)}
    names = chosen | set(spec.nodes.names) | flying | judged
    ordered = sorted(names, key=lambda name: (name == fleet.operator_node, name))
    return {name: _stand(fleet, spec, name, name in flying) for name in ordered}


def candidate(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> Candidate:
    """Gather what admission asks about one node."""
    return Candidate(
        upgrade=fleet.upgrade,
        spec=spec,
        node=node,
        server=fleet.server,
        task=fleet.tasks.get(node.name),
        active_upgrades=fleet.active_upgrades,
        pods=fleet.pods.get(node.name),
        unreadable=fleet.unreadable.get(node.name, ""),
    )


def _is_ours(fleet: FleetSnapshot, task: Task) -> bool:
    return fleet.own_task(task.name) is not None


def _stand(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, flying: bool) -> Standing:
    task, node = fleet.own_task(name), fleet.nodes.get(name)
    if flying:
        return Standing(node=name, place=Place.IN_FLIGHT, task=task)
    if task is not None and (verdict := task.verdict) is not None:
        return Standing(node=name, place=Place.FINISHED, reason=verdict.reason, message=verdict.message, task=task)
    if node is None:
        message = sentence(Reason.NODE_NOT_FOUND, f"there is no node {name}")
        return Standing(node=name, place=Place.REFUSED, reason=Reason.NODE_NOT_FOUND, message=message)
    if objection := judge(candidate(fleet, spec, node)):
        place = Place.SKIPPED if objection.skip else Place.REFUSED
        return Standing(node=name, place=place, reason=objection.reason, message=objection.message)
    return Standing(node=name, place=Place.PENDING)
