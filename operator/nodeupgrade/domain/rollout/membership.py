"""Which nodes belong to a rollout, in which wave, and in which state each is.

Those that are selected do and, once the plan is made, those that are claimed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, known_reason, sentence
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunKind, Verdict
from nodeupgrade.api.upgrade.nodes import Membership, NodeSelection
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.waves import REMAINDER, Wave
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.placement import matches_labels
from nodeupgrade.domain.rollout.admission import judge
from nodeupgrade.domain.rollout.candidate import Candidate
from nodeupgrade.domain.rollout.failures import FAILURES, KEPT, is_on_record, kept, next_look
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

WAITED_FOR = frozenset(
    {Reason.NODE_NOT_READY, Reason.OVERLAP_CONFLICT, Reason.CORDON_LEFT_BEHIND, Reason.CONTROL_PLANE_CHANGING}
)
"""Reasons that usually resolve by themselves, as the control plane can see: the rollout waits instead of stalling."""


class Place(StrEnum):
    """Where a node is in the rollout."""

    PENDING = "Pending"
    """May be started when its wave and the budgets allow."""
    IN_FLIGHT = "InFlight"
    """Holds a slot."""
    CHECKED = "Checked"
    """Was prechecked, for ``action: Plan``; no check objects to its upgrade."""
    HELD = "Held"
    """Is waited for, as an annotation on the node asks; evaluated again on every pass."""
    SKIPPED = "Skipped"
    """Needs nothing, or is skipped as the spec says; evaluated again on every pass."""
    REFUSED = "Refused"
    """Must not be touched in its current state; evaluated again on every pass."""
    FINISHED = "Finished"
    """Its run is over and has a verdict, which the task records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One member of a rollout."""

    node: NodeName
    place: Place
    wave: str = REMAINDER  # name of its wave
    # why it is HELD, SKIPPED or REFUSED, or how it FINISHED; ``message`` has the details
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    task: Task | None = None  # the task by which the rollout claims it; None if it is not claimed
    view: NodeView | None = None  # the Node; None if it does not exist
    record: NodeFailure | None = None  # the failure of this very Node that the status keeps; None if there is none
    again: datetime | None = None  # when a node that its agent REFUSED is retried automatically
    # the verdict on its upgrade, known even while the node still holds its slot; None for prechecks
    judged: Verdict | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive what every plan asks of every member, of which few have changed."""
        object.__setattr__(self, "judged", self._judged())

    @property
    def begun(self) -> bool:
        """Whether an agent works on it or has worked on it."""
        return self.again is not None or self.place in {Place.IN_FLIGHT, Place.FINISHED}

    @property
    def outcome(self) -> Verdict | None:
        """The verdict on its run, once the node has FINISHED."""
        return self._known if self.place is Place.FINISHED else None

    @property
    def _known(self) -> Verdict | None:
        """The verdict that its task tells of, else the one on record."""
        if self.task is not None and self.task.verdict is not None:
            return self.task.verdict.outcome
        return None if self.record is None else self.record.outcome

    def _judged(self) -> Verdict | None:
        looked_at = self.task is not None and self.task.kind is RunKind.PRECHECK and self.record is None
        return None if looked_at or self.place not in {Place.FINISHED, Place.IN_FLIGHT} else self._known

    @property
    def at_target(self) -> bool:
        """Whether it was upgraded, or ran the target before."""
        already = self.place is Place.SKIPPED and self.reason is Reason.ALREADY_AT_TARGET
        return already or self.outcome is Verdict.SUCCEEDED

    @property
    def failed(self) -> bool:
        """Whether it counts against the failure threshold."""
        return self.judged in FAILURES

    @property
    def blocks(self) -> bool:
        """Whether its wave cannot complete while the node is in this state."""
        waits = self.again is not None or (self.place is Place.REFUSED and self.reason in WAITED_FOR)
        return waits or self.place in {Place.PENDING, Place.HELD, Place.IN_FLIGHT, Place.CHECKED}


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

    def member(
        place: Place, reason: Reason = Reason.PROGRESSING, message: str = "", again: datetime | None = None
    ) -> NodeState:
        return NodeState(
            node=name,
            place=place,
            wave=wave,
            reason=reason,
            message=message,
            task=task,
            view=node,
            record=record,
            again=again,
        )

    if flying:
        return member(Place.IN_FLIGHT)
    if task is not None and (verdict := task.verdict) is not None:
        goes_on = spec.action not in {RolloutAction.PLAN, RolloutAction.ABORT} and not fleet.upgrade.finished
        if goes_on and node is not None and (again := next_look(task)) is not None:
            message = f"{verdict.message.removesuffix('.')}; the node is looked at again at {timestamp(again)}."
            return member(Place.REFUSED, verdict.reason, message, again)
        planning = spec.action is RolloutAction.PLAN
        if task.kind is RunKind.UPGRADE or (planning and verdict.outcome is not Verdict.PRECHECKED):
            return member(Place.FINISHED, verdict.reason, verdict.message)
        if planning:
            return member(Place.CHECKED)
    if record is not None and not _is_held_at_retry(fleet, spec, node, now):
        return member(Place.FINISHED, known_reason(record.reason) or Reason.FAILED, record.message)
    if node is None:
        message = sentence(Reason.NODE_NOT_FOUND, f"there is no node {name}")
        return member(Place.REFUSED, Reason.NODE_NOT_FOUND, message)
    if finding := judge(Candidate(fleet=fleet, spec=spec, node=node, now=now)):
        place = Place.SKIPPED if finding.weight is Severity.SKIP else Place.REFUSED
        place = Place.HELD if finding.reason in {Reason.NODE_HELD, Reason.HELD_BY_POD} else place
        return member(place, finding.reason, finding.message)
    if late:
        message = sentence(Reason.NOT_IN_PLAN, f"node {name} holds no claim, and the plan was made without it")
        return member(Place.SKIPPED, Reason.NOT_IN_PLAN, message)
    return member(Place.PENDING)


def _is_held_at_retry(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView | None, now: datetime) -> bool:
    """Report whether a retry finds a node that failed in the hands of another rollout by now: it waits for that one."""
    if node is None or not fleet.upgrade.retry_asked:
        return False
    finding = judge(Candidate(fleet=fleet, spec=spec, node=node, now=now))
    return finding is not None and finding.reason is Reason.OVERLAP_CONFLICT
