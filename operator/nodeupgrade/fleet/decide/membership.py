"""Which nodes belong to a rollout, in which wave, and in which state each is.

Nodes that are selected belong to it and, once the plan is made, those that are claimed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.reasons import Reason, Severity, known_reason
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.upgrade.nodes import Membership, NodeSelection
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import UnlistedFailures, UpgradeStatus
from nodeupgrade.api.upgrade.waves import REMAINDER, Wave
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.placement import matches_labels
from nodeupgrade.fleet.actions import FreeSlot
from nodeupgrade.fleet.decide import failures
from nodeupgrade.fleet.decide.admission import judge
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.failures import NO_FAILURES, RECORDED, DepartedFailures, next_look, read_record
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.decide.waves import WavePosition, rosters, wave_position
from nodeupgrade.fleet.snapshot import FleetSnapshot

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def view_rollout(
    fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: Collection[FreeSlot] = ()
) -> RolloutView:
    """Return the rollout as it will be once these slots are free, with all failures on record.

    A retry that can be carried out clears them, but not those of nodes whose slots become free with it.
    """
    freed_nodes = frozenset(action.node for action in freed)

    def view(later: FleetSnapshot) -> RolloutView:
        return view_members(later, spec, now, members_of(later, spec, now), freed_nodes)

    rollout = view(failures.record_failures(fleet, freed))
    if fleet.upgrade.retry_requested and rollout.is_retried:
        cleared = failures.clear_retried(failures.record_failures(fleet))
        return view(failures.record_failures(cleared, freed))
    return rollout


def view_members(
    fleet: FleetSnapshot,
    spec: UpgradeSpec,
    now: datetime,
    members: Mapping[NodeName, NodeState],
    freed: frozenset[NodeName] = frozenset(),
) -> RolloutView:
    """Return the view of a rollout, given its members in upgrade order; ``action: Plan`` ignores waves."""
    refused = {m.node for m in members.values() if m.place is Place.REFUSED and m.reason is Reason.OVERLAP_CONFLICT}
    unclaimed = tuple(m for m in members.values() if m.node not in refused and _is_unclaimed(fleet, spec, m))
    gone = departed_failures(fleet.upgrade.status, members.values())
    waves = rosters(spec.waves, members, gone)
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
        departed=DepartedFailures.sum_of(gone.values()),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A member before it is assigned to a wave."""

    node: NodeName
    labels: Mapping[str, str]
    wave: str = ""  # the wave that its claim records; empty if it is not claimed
    idle: bool = False  # whether it needs nothing, and so does not count against the size of a wave
    late: bool = False  # whether the plan was made without it


def members_of(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> dict[NodeName, NodeState]:
    """Return who takes part, in upgrade order: wave by wave."""
    flying = frozenset(fleet.in_flight)
    names = {*fleet.nodes, *fleet.tasks, *spec.nodes.names, *flying}
    taking_part = [_unassigned(fleet, spec, name) for name in names if name in flying or _is_member(fleet, spec, name)]
    waves, late = assign(spec.waves, taking_part, last=fleet.operator_node), {m.node for m in taking_part if m.late}
    return {
        name: node_state(fleet, spec, name, wave, now, flying=name in flying, late=name in late)
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


def _unassigned(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> Unassigned:
    task, node = fleet.claim_of(name), fleet.nodes.get(name)
    admitted = name in fleet.upgrade.status.in_flight  # so it was part of the plan, whatever became of its task
    late = node is not None and not admitted and _came_too_late(fleet, spec, node)
    return Unassigned(
        node=name,
        labels={} if node is None else node.labels,
        wave="" if task is None else task.spec.wave,
        idle=task is None and not admitted and (node is None or late or not needs_claim(fleet, spec, node)),
        late=late,
    )


def _is_member(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> bool:
    """Report whether a node without a slot belongs to the rollout.

    It does if it has a verdict, failed, matches now, or is named although it does not exist.
    """
    task, node = fleet.tasks.get(name), fleet.nodes.get(name)
    if task is not None and task.verdict is not None and fleet.own_task(name) is not None:
        uid = stored_uid(task.spec.node_uid)
        counted = node is not None or task.verdict.outcome not in RECORDED
        return counted or any(each.uid == uid for each in read_record(fleet.upgrade.status).listed)
    if node is None:
        return name in spec.nodes.names and name not in spec.nodes.exclude.names
    return selects(spec.nodes, node) or fleet.record_of(name) is not None


def _came_too_late(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a selected node joined after the plan was made: only nodes that were claimed for it take part.

    A node that is selected by name always takes part, and so does one that replaces a failed node of the same name.
    """
    if fleet.upgrade.status.planned_at is None or spec.nodes.membership is not Membership.SNAPSHOT:
        return False
    if node.name in spec.nodes.names or not needs_claim(fleet, spec, node):
        return False
    return all(each.node != node.name for each in read_record(fleet.upgrade.status).listed)


def needs_claim(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView) -> bool:
    """Report whether a member must be claimed: it runs another version, and there is an artifact for its platform."""
    if node.name in fleet.unreadable:
        return False
    needs = node.kubelet_version != spec.version and spec.artifact.serves(node.platform)
    return needs and fleet.claim_of(node.name) is None


def assign(
    waves: Sequence[Wave], members: Iterable[Unassigned], last: NodeName | None = None
) -> Mapping[NodeName, str]:
    """Return the wave of every member, in upgrade order: wave by wave, then by name; ``last`` comes last in its wave.

    The claim decides; without one, it is the first wave, in the order of ``waves``, that selects the member or has room
    for it. All others belong to the remainder.
    """
    ordered = sorted(members, key=lambda member: (member.node == last, member.node))
    names = [*(wave.name for wave in waves), REMAINDER]
    assigned = {member.node: member.wave for member in ordered if member.wave in names}
    sizes = Counter(assigned.values())
    for wave in waves:
        left = [member for member in ordered if member.node not in assigned]
        if wave.selector is not None:
            chosen = [member.node for member in left if matches_labels(wave.selector, member.labels)]
        else:
            size = wave.size.of(len(ordered)) if wave.size is not None else 0
            chosen = [member.node for member in left if not member.idle][: max(0, size - sizes[wave.name])]
        assigned |= dict.fromkeys(chosen, wave.name)
    wave_of = {member.node: assigned.get(member.node, REMAINDER) for member in ordered}
    return dict(sorted(wave_of.items(), key=lambda item: names.index(item[1])))


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


def departed_failures(status: UpgradeStatus, members: Iterable[NodeState]) -> Mapping[str, DepartedFailures]:
    """Return, by wave, the failures on record that no member shows any more."""
    record = read_record(status)
    if not record.listed and not record.unlisted:
        return {}
    listed = {each.uid for each in record.listed}
    present, shown = set[str](), dict[str, UnlistedFailures]()
    for member in members:
        if member.record is not None:
            present.add(member.record.uid)
        elif (task := member.task) is not None and (verdict := task.verdict) is not None:
            uid, wave = stored_uid(task.spec.node_uid), task.spec.wave or REMAINDER
            present.add(uid)
            if uid in listed or member.place is Place.IN_FLIGHT or next_look(task) is not None:
                continue
            if verdict.outcome in RECORDED:
                count = failures.count_failure(failures.failure_of(task))
                shown[wave] = failures.add_counts(shown.get(wave, NO_FAILURES), count)
    gone = [each for each in record.listed if not each.uid or each.uid not in present]
    return {
        wave: DepartedFailures(
            listed=tuple(each for each in gone if (each.wave or REMAINDER) == wave),
            unlisted=failures.subtract_counts(record.unlisted.get(wave, NO_FAILURES), shown.get(wave, NO_FAILURES)),
        )
        for wave in sorted({*(each.wave or REMAINDER for each in gone), *record.unlisted})
    }
