"""Which nodes belong to a rollout: those selected and, once the plan is made, those claimed."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.api.upgrade.nodes import Membership, NodeSelection
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.placement import matches_labels
from nodeupgrade.domain.rollout.failures import KEPT, is_on_record, kept
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def selects(selection: NodeSelection, node: NodeView) -> bool:
    """Report whether ``spec.nodes`` selects this node."""
    if node.name in selection.exclude.names:
        return False
    if (excluded := selection.exclude.selector) is not None and matches_labels(excluded, node.labels):
        return False
    if node.name in selection.names:
        return True
    if not selection.control_plane and any(label in node.labels for label in CONTROL_PLANE_LABELS):
        return False
    return selection.all or (selection.selector is not None and matches_labels(selection.selector, node.labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A member before it is assigned to a wave."""

    node: NodeName
    labels: Mapping[str, str]
    wave: str = ""  # the wave that its claim records; empty if it is not claimed
    idle: bool = False  # whether it needs nothing, and so does not count against the size of a wave
    late: bool = False  # whether the plan was made without it


def unassigned_members(fleet: FleetSnapshot, spec: UpgradeSpec) -> list[Unassigned]:
    """Return the nodes that belong to the rollout."""
    flying = frozenset(fleet.in_flight)
    names = {*fleet.nodes, *fleet.tasks, *spec.nodes.names, *flying}
    return [_unassigned(fleet, spec, name) for name in names if name in flying or _is_member(fleet, spec, name)]


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> Unassigned:
    task, node = fleet.claim_of(name), fleet.nodes.get(name)
    late = node is not None and _came_too_late(fleet, spec, node)
    return Unassigned(
        node=name,
        labels={} if node is None else node.labels,
        wave="" if task is None else task.spec.wave,
        idle=task is None and (node is None or late or not needs_claim(fleet, spec, node)),
        late=late,
    )


def _is_member(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> bool:
    """Report whether a node without a slot belongs to the rollout.

    It does if it has a verdict, failed, matches now, or is named although it does not exist.
    """
    task, node = fleet.tasks.get(name), fleet.nodes.get(name)
    if task is not None and task.verdict is not None and fleet.own_task(name) is not None:
        told = node is not None or task.verdict.outcome not in KEPT
        return told or is_on_record(fleet.upgrade.status, task)
    if node is None:
        return name in spec.nodes.names and name not in spec.nodes.exclude.names
    return selects(spec.nodes, node) or fleet.record_of(name) is not None


def _came_too_late(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a node that is selected was none of the plan's: only those that were claimed then take part.

    A node that is selected by name always takes part, and so does whatever comes in the place of one that failed.
    """
    if fleet.upgrade.status.planned_at is None or spec.nodes.membership is not Membership.SNAPSHOT:
        return False
    if node.name in spec.nodes.names or not needs_claim(fleet, spec, node):
        return False
    return all(each.node != node.name for each in kept(fleet.upgrade.status).listed)


def needs_claim(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a member must be claimed: it runs another version, and there is an artifact for its platform."""
    if node.name in fleet.unreadable:
        return False
    needs = node.kubelet_version != spec.version and spec.artifact.serves(node.platform)
    return needs and fleet.claim_of(node.name) is None
