"""The state of each node of a rollout, derived from API objects alone."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile

from nodeupgrade.api.encoding.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, sentence
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.finding import PASSING
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.select.admission import judge
from nodeupgrade.domain.rollout.select.candidate import Candidate
from nodeupgrade.domain.rollout.select.membership import claim_of
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WAITED_FOR = frozenset(
    {Reason.NODE_NOT_READY, Reason.OVERLAP_CONFLICT, Reason.CORDON_LEFT_BEHIND, Reason.CONTROL_PLANE_CHANGING}
)
"""Reasons that usually resolve by themselves, as the control plane can see: the rollout waits instead of stalling."""

FAILURES = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})
"""Verdicts that count against the failure threshold; a refused node was not touched and does not count."""


DELAYS = (timedelta(minutes=2), timedelta(minutes=5), timedelta(minutes=15))
"""Delay after each refusal in a row; after the last one, a person must request a retry."""


def next_look(task: Task) -> datetime | None:
    """Return when to retry a node that its agent refused; None if that is left to a person.

    The agent itself has already retried for a minute. The result depends only on the task and its history, so a
    restarted operator arrives at the same time.
    """
    verdict = task.verdict
    if verdict is None or verdict.outcome is not Verdict.REFUSED or verdict.decided_at is None:
        return None
    own = (task.spec.upgrade_ref.name, task.spec.to_version, Verdict.REFUSED)
    in_a_row = takewhile(lambda run: (run.upgrade, run.to_version, run.result) == own, reversed(task.spec.history))
    earlier = sum(1 for _ in in_a_row)
    if verdict.reason not in PASSING or earlier >= len(DELAYS):
        return None
    return verdict.decided_at + DELAYS[earlier]


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
    """One member of a rollout.

    Attributes:
        wave: name of its wave.
        reason: why it is HELD, SKIPPED or REFUSED, or how it FINISHED; ``message`` has the details.
        task: the task by which the rollout claims it; None if it is not claimed.
        view: the Node; None if it does not exist.
        again: when a node that its agent REFUSED is retried automatically.
        judged: the verdict on its upgrade, known even while the node still holds its slot; None for prechecks.
    """

    node: NodeName
    place: Place
    wave: str = REMAINDER
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    task: Task | None = None
    view: NodeView | None = None
    again: datetime | None = None
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
        if self.place is not Place.FINISHED or self.task is None or self.task.verdict is None:
            return None
        return self.task.verdict.outcome

    def _judged(self) -> Verdict | None:
        if (
            self.place not in {Place.FINISHED, Place.IN_FLIGHT}
            or self.task is None
            or self.task.kind is RunKind.PRECHECK
        ):
            return None
        return None if self.task.verdict is None else self.task.verdict.outcome

    @property
    def failed(self) -> bool:
        """Whether it counts against the failure threshold."""
        return self.judged in FAILURES

    @property
    def blocks(self) -> bool:
        """Whether its wave cannot complete while the node is in this state."""
        waits = self.again is not None or (self.place is Place.REFUSED and self.reason in WAITED_FOR)
        return waits or self.place in {Place.PENDING, Place.HELD, Place.IN_FLIGHT, Place.CHECKED}


def candidate(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, now: datetime) -> Candidate:
    """Return the facts about one node that the admission checks need."""
    return Candidate(
        upgrade=fleet.upgrade,
        spec=spec,
        node=node,
        server=fleet.server,
        now=now,
        task=fleet.tasks.get(node.name),
        active_upgrades=fleet.active_upgrades,
        pods=fleet.pods.get(node.name),
        unreadable=fleet.unreadable.get(node.name, ""),
        guard=fleet.guard,
        setbacks=fleet.setbacks,
        api_servers=fleet.api_servers,
    )


def node_state(
    fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, wave: str, now: datetime, *, flying: bool
) -> NodeState:
    """Return the state of one member."""
    task, node = claim_of(fleet, name), fleet.nodes.get(name)

    def member(
        place: Place, reason: Reason = Reason.PROGRESSING, message: str = "", again: datetime | None = None
    ) -> NodeState:
        return NodeState(
            node=name, place=place, wave=wave, reason=reason, message=message, task=task, view=node, again=again
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
    if node is None:
        message = sentence(Reason.NODE_NOT_FOUND, f"there is no node {name}")
        return member(Place.REFUSED, Reason.NODE_NOT_FOUND, message)
    if finding := judge(candidate(fleet, spec, node, now)):
        place = Place.SKIPPED if finding.weight is Severity.SKIP else Place.REFUSED
        place = Place.HELD if finding.reason is Reason.NODE_HELD else place
        return member(place, finding.reason, finding.message)
    return member(Place.PENDING)
