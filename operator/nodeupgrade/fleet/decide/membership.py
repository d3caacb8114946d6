"""Which nodes belong to a rollout, and in which state each is.

Nodes that are selected belong to it and, once the plan is made, those that are claimed.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import partial

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, known_reason
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.upgrade.nodes import Membership, NodeSelection
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.placement import matches_labels
from nodeupgrade.fleet.actions import FreeSlot
from nodeupgrade.fleet.decide import failures
from nodeupgrade.fleet.decide.admission import judge
from nodeupgrade.fleet.decide.assignment import Unassigned, assign
from nodeupgrade.fleet.decide.candidate import Candidate, unsupported_version
from nodeupgrade.fleet.decide.failures import next_look
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.waves import WavePosition, rosters, wave_position
from nodeupgrade.fleet.snapshot import FleetSnapshot

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def view_rollout(
    fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: Collection[FreeSlot] = ()
) -> RolloutView:
    """Return the rollout as it will be once these slots are free, and a retry that can be carried out has been."""
    later, freed_nodes = failures.without_slots(fleet, freed), frozenset(action.node for action in freed)

    def view(fleet: FleetSnapshot, counted: tuple[NodeFailure, ...]) -> RolloutView:
        return view_members(fleet, spec, now, members_of(fleet, spec, now), counted=counted, freed=freed_nodes)

    rollout = view(later, failures.failures_of(later))
    if fleet.upgrade.retry_requested and rollout.is_retried:
        later = failures.after_retry(later)
        return view(later, failures.failures_of(later, fleet.upgrade.retry))
    return rollout


def view_members(
    fleet: FleetSnapshot,
    spec: UpgradeSpec,
    now: datetime,
    members: Mapping[NodeName, NodeState],
    *,
    counted: tuple[NodeFailure, ...] | None = None,
    freed: frozenset[NodeName] = frozenset(),
) -> RolloutView:
    """Return the view of a rollout, given its members in upgrade order; ``action: Plan`` ignores waves.

    Args:
        counted: The failures that count; found anew if None.
        freed: See ``RolloutView``.
    """
    refused = {m.node for m in members.values() if m.place is Place.REFUSED and m.reason is Reason.OVERLAP_CONFLICT}
    unclaimed = tuple(m for m in members.values() if m.node not in refused and _is_unclaimed(fleet, spec, m))
    counted = failures.failures_of(fleet) if counted is None else counted
    shown = {member.failure_uid for member in members.values()}
    departed = tuple(each for each in counted if each.uid not in shown)
    waves = rosters(spec.waves, members, departed, fleet.upgrade.status.waves)
    pending = tuple(member for member in members.values() if member.place is Place.PENDING)
    planning = WavePosition(index=-1, pending=pending) if spec.action is RolloutAction.PLAN else None
    return RolloutView(
        fleet=fleet,
        spec=spec,
        now=now,
        members=members,
        waves=waves,
        position=planning or wave_position(fleet.upgrade, waves, now),
        flying=tuple(sorted(member.node for member in members.values() if member.place is Place.IN_FLIGHT)),
        unclaimed=unclaimed,
        held=tuple(member for member in members.values() if member.node in refused),
        failures=counted,
        departed=departed,
        freed=freed,
    )


def _is_unclaimed(fleet: FleetSnapshot, spec: UpgradeSpec, member: NodeState) -> bool:
    """Report whether a member must be claimed before the plan is made."""
    if (
        member.task is not None
        or member.place is Place.IN_FLIGHT
        or member.view is None
        or member.reason is Reason.NOT_IN_PLAN
        or (member.record is not None and not fleet.upgrade.retry_requested)
    ):
        return False
    refused = fleet.upgrade.status.planned_at is not None and member.reason is Reason.WRITE_REFUSED
    return not refused and needs_claim(fleet, spec, member.view)


def members_of(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> dict[NodeName, NodeState]:
    """Return who takes part, in upgrade order: wave by wave."""
    slots = fleet.slots
    names = {*fleet.nodes, *fleet.tasks, *fleet.unreadable, *spec.nodes.names, *slots}
    taking_part = [
        _unassigned(fleet, spec, name, slots.get(name))
        for name in names
        if name in slots or _is_member(fleet, spec, name)
    ]
    waves, late = assign(spec.waves, taking_part, last=fleet.operator_node), {m.node for m in taking_part if m.late}
    return {
        name: node_state(fleet, spec, name, wave, now, flying=name in slots, late=name in late)
        for name, wave in waves.items()
    }


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


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, slot: Slot | None) -> Unassigned:
    task, node = fleet.claim_of(name), fleet.nodes.get(name)
    if slot is not None:
        return Unassigned(node=name, labels={}, wave=slot.wave or REMAINDER)
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

    It does if it has a verdict, failed, matches now, or is named although it does not exist. A Node that cannot be read
    may match.
    """
    task, node = fleet.own_task(name), fleet.nodes.get(name)
    if task is not None and task.verdict is not None:
        return node is not None or task.verdict.outcome in failures.RECORDED
    if node is not None:
        return selects(spec.nodes, node) or fleet.record_of(name) is not None
    if name in spec.nodes.exclude.names:
        return False
    return name in spec.nodes.names or (
        name in fleet.unreadable and name not in fleet.tasks and _may_select(spec.nodes)
    )


def _may_select(selection: NodeSelection) -> bool:
    """Report whether nodes are selected by more than their names."""
    return selection.all or selection.selector is not None


def _came_too_late(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a selected node joined after the plan was made: only nodes that were claimed for it take part.

    A node that is selected by name always takes part, and so does one that replaces a failed node of the same name.
    """
    if fleet.upgrade.status.planned_at is None or spec.nodes.membership is not Membership.SNAPSHOT:
        return False
    if node.name in spec.nodes.names or not needs_claim(fleet, spec, node):
        return False
    earlier = fleet.tasks.get(node.name)
    if earlier is not None and earlier.spec.upgrade_ref.uid == fleet.upgrade.uid and not earlier.released:
        return False
    return all(each.node != node.name or each.outcome is None for each in fleet.upgrade.status.failures)


def needs_claim(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a member must be claimed: it runs another known version, and there is an artifact for it."""
    if node.name in fleet.unreadable or unsupported_version(node.kubelet_version) is not None:
        return False
    needs = node.kubelet_version != spec.version and spec.artifact.serves(node.platform)
    return needs and fleet.claim_of(node.name) is None


def node_state(
    fleet: FleetSnapshot,
    spec: UpgradeSpec,
    name: NodeName,
    wave: str,
    now: datetime,
    *,
    flying: bool = False,
    late: bool = False,
) -> NodeState:
    """Return the state of one member; ``flying`` if it holds a slot, ``late`` if the plan was made without it."""
    task, node, record = fleet.claim_of(name), fleet.nodes.get(name), fleet.record_of(name)
    member = partial(NodeState, node=name, wave=wave, task=task, view=node, record=record)
    if flying:
        return member(place=Place.IN_FLIGHT)
    if task is not None and (verdict := task.verdict) is not None:
        continues = spec.action not in {RolloutAction.PLAN, RolloutAction.ABORT} and not fleet.upgrade.finished
        if continues and node is not None and (again := next_look(task)) is not None:
            message = f"{verdict.message.removesuffix('.')}; the node is looked at again at {timestamp(again)}."
            return member(place=Place.REFUSED, reason=verdict.reason, message=message, again=again)
        planning = spec.action is RolloutAction.PLAN
        if task.kind is RunKind.UPGRADE or (planning and verdict.outcome is not Verdict.PRECHECKED):
            return member(place=Place.FINISHED, reason=verdict.reason, message=verdict.message)
        if planning:
            return member(place=Place.CHECKED)
    if record is not None and not _is_held_at_retry(fleet, spec, node, now):
        reason = known_reason(record.reason) or Reason.FAILED
        return member(place=Place.FINISHED, reason=reason, message=record.message)
    if node is None and (problem := fleet.unreadable.get(name)) is not None:
        message = sentence(Reason.OBJECT_UNREADABLE, f"node {name} cannot be read: {problem}")
        return member(place=Place.REFUSED, reason=Reason.OBJECT_UNREADABLE, message=message)
    if node is None:
        message = sentence(Reason.NODE_NOT_FOUND, f"there is no node {name}")
        return member(place=Place.REFUSED, reason=Reason.NODE_NOT_FOUND, message=message)
    if finding := judge(Candidate(fleet=fleet, spec=spec, node=node, now=now)):
        place = Place.SKIPPED if finding.weight is Severity.SKIP else Place.REFUSED
        place = Place.HELD if finding.reason in {Reason.HELD_BY_ANNOTATION, Reason.HELD_BY_POD} else place
        return member(place=place, reason=finding.reason, message=finding.message)
    if late:
        message = sentence(Reason.NOT_IN_PLAN, f"node {name} holds no claim, and the plan was made without it")
        return member(place=Place.SKIPPED, reason=Reason.NOT_IN_PLAN, message=message)
    return member(place=Place.PENDING)


def _is_held_at_retry(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView | None, now: datetime) -> bool:
    """Report whether a node to retry is held by another rollout by now, so that it waits for that one."""
    if node is None or not fleet.upgrade.retry_requested:
        return False
    finding = judge(Candidate(fleet=fleet, spec=spec, node=node, now=now))
    return finding is not None and finding.reason is Reason.OVERLAP_CONFLICT
