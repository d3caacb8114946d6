"""The state of one node in a rollout, from its task and the failure on record."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, RunKind, Verdict
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.decide.candidate import Candidate

WAITED_FOR = frozenset(
    {Reason.NODE_NOT_READY, Reason.OVERLAP_CONFLICT, Reason.CORDON_LEFT_BEHIND, Reason.CONTROL_PLANE_VERSIONS_DIFFER}
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
    kind: RunKind | None = None  # what its slot was taken for; None if it holds none
    # why it is HELD, SKIPPED or REFUSED, or how it FINISHED; ``message`` has the details
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    check: str = ""  # name of the check of the control plane by which it is HELD, SKIPPED or REFUSED
    task: Task | None = None  # the task by which the rollout claims it; None if it is not claimed
    view: NodeView | None = None  # the Node; None if it does not exist
    record: NodeFailure | None = None  # the failure of this very Node that is on record; None if there is none
    again: datetime | None = None  # when a node that its agent REFUSED is retried automatically
    lingers: bool = False  # whether its agent has refused it so often in a row that its wave waits for it no longer
    needs_claim: bool = False  # whether it is to be upgraded and no task of the rollout holds it
    candidate: Candidate | None = field(default=None, repr=False, compare=False)  # None if it needed no check
    # the verdict on its upgrade, known even while the node still holds its slot; None for prechecks
    judged: Verdict | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the verdict once: every plan asks each member for it, and few members have changed."""
        upgrade = not self.prechecked and self.place in {Place.FINISHED, Place.IN_FLIGHT}
        object.__setattr__(self, "judged", self._known if upgrade else None)

    @property
    def begun(self) -> bool:
        """Whether an agent works on it or has worked on it."""
        return self.again is not None or self.place in {Place.IN_FLIGHT, Place.FINISHED}

    @property
    def upgrade_begun(self) -> bool:
        """Whether its upgrade was started: an agent that examines it for a plan begins nothing."""
        if self.place is Place.IN_FLIGHT:
            return self.kind is RunKind.UPGRADE
        return self.begun and not self.prechecked

    @property
    def prechecked(self) -> bool:
        """Whether its last run only examined it."""
        return self.task is not None and self.task.kind is RunKind.PRECHECK and self.record is None

    @property
    def failure_uid(self) -> str:
        """UID of the Node whose failure, if it failed, this state shows."""
        if self.record is not None:
            return self.record.uid
        return "" if self.task is None or self.task.verdict is None else stored_uid(self.task.spec.node_uid)

    @property
    def outcome(self) -> Verdict | None:
        """The verdict on its run, once the node has FINISHED."""
        return self._known if self.place is Place.FINISHED else None

    @property
    def _known(self) -> Verdict | None:
        """The verdict in its task, else the one on record."""
        if self.task is not None and self.task.verdict is not None:
            return self.task.verdict.outcome
        return None if self.record is None else self.record.outcome

    @property
    def at_target(self) -> bool:
        """Whether it was upgraded, or ran the target before."""
        already = self.place is Place.SKIPPED and self.reason is Reason.ALREADY_AT_TARGET
        return already or self.outcome is Verdict.SUCCEEDED

    @property
    def holds_wave(self) -> bool:
        """Whether its wave cannot complete while the node is in this state."""
        return self.blocks and not self.lingers

    @property
    def blocks(self) -> bool:
        """Whether the rollout cannot end while the node is in this state."""
        waits = self.again is not None or (self.place is Place.REFUSED and self.reason in WAITED_FOR)
        return waits or self.place in {Place.PENDING, Place.HELD, Place.IN_FLIGHT, Place.CHECKED}
