"""How every node of a rollout stands, derived from objects alone."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, sentence
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.select.admission import Candidate, judge
from nodeupgrade.domain.rollout.select.membership import claim_of
from nodeupgrade.domain.rollout.select.second_look import next_look
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot

WAITED_FOR = frozenset({Reason.NODE_NOT_READY, Reason.OVERLAP_CONFLICT, Reason.CORDON_LEFT_BEHIND})
"""What usually passes by itself and is seen from here: the rollout goes on waiting instead of calling a human."""

FAILURES = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})
"""Verdicts that count against the failure threshold; a refused node was left untouched and does not."""


class Place(StrEnum):
    """Where a node is on its way."""

    PENDING = "Pending"
    """May be started when its turn comes."""
    IN_FLIGHT = "InFlight"
    """Holds a slot."""
    CHECKED = "Checked"
    """Has been looked at, for ``action: Plan``; nothing objects to its upgrade."""
    SKIPPED = "Skipped"
    """Needs nothing, or is passed over as the spec says; looked at again on every pass."""
    REFUSED = "Refused"
    """Must not be touched as things are; looked at again on every pass."""
    FINISHED = "Finished"
    """Its run is over and judged; the task's verdict says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node.

    Attributes:
        wave: name of its wave.
        reason: with message, why it is SKIPPED or REFUSED, or how it FINISHED.
        task: the claim; None for a node that is not claimed.
        view: the Node; None if it does not exist.
        again: when a node that its agent REFUSED is looked at again by itself.
    """

    node: NodeName
    place: Place
    wave: str = REMAINDER
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    task: Task | None = None
    view: NodeView | None = None
    again: datetime | None = None

    @property
    def begun(self) -> bool:
        """Whether an agent is at work on it, or has been."""
        return self.again is not None or self.place in {Place.IN_FLIGHT, Place.FINISHED}

    @property
    def outcome(self) -> Verdict | None:
        """How its run ended, if it is over."""
        if self.place is not Place.FINISHED or self.task is None or self.task.verdict is None:
            return None
        return self.task.verdict.outcome

    @property
    def judged(self) -> Verdict | None:
        """How its upgrade ended, known from the verdict on, while the node still holds its slot."""
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
        """Whether its wave is not over before this node has moved on."""
        waits = self.again is not None or (self.place is Place.REFUSED and self.reason in WAITED_FOR)
        return waits or self.place in {Place.PENDING, Place.IN_FLIGHT, Place.CHECKED}


def candidate(fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, now: datetime) -> Candidate:
    """Gather what admission asks about one node."""
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
    )


def node_state(
    fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName, wave: str, now: datetime, *, flying: bool
) -> NodeState:
    """Say how one member stands."""
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
        return member(place, finding.reason, finding.message)
    return member(Place.PENDING)
