"""The state of each node of a rollout, derived from API objects alone."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, known_reason, sentence
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunKind, Verdict
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.admission import judge
from nodeupgrade.domain.rollout.candidate import Candidate
from nodeupgrade.domain.rollout.failures import FAILURES, next_look
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

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
