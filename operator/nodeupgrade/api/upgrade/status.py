"""The status of a NodeUpgrade: what the control plane reports. Bounds keep it below 96 KiB for any size of fleet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from nodeupgrade.api import limits
from nodeupgrade.api.field import Count, Field, NameOfNode, declared
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.waves import MOST_WAVES, SLOTS
from nodeupgrade.api.values import NodeName, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Number of nodes by state. Their sum is total."""

    total: Annotated[Count, "Nodes of the rollout."] = 0
    pending: Annotated[Count, "Nodes that are still to be upgraded."] = 0
    in_progress: Annotated[Count, "Nodes in flight."] = 0
    succeeded: Annotated[Count, "Nodes that were upgraded."] = 0
    skipped: Annotated[Count, "Nodes that were skipped."] = 0
    refused: Annotated[Count, "Nodes that were refused and not touched."] = 0
    failed: Annotated[Count, "Nodes that failed."] = 0
    rolled_back: Annotated[Count, "Nodes on which the old kubelet was restored."] = 0
    rollback_failed: Annotated[Count, "Nodes that could not be rolled back and need manual repair."] = 0

    @property
    def all_failed(self) -> int:
        """Number of nodes that failed or were rolled back, or could not be."""
        return self.failed + self.rolled_back + self.rollback_failed


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTotals:
    """Containers of the verified nodes."""

    baseline: Annotated[Count, "Number of containers that ran before."] = 0
    rewritten: Annotated[Count, "Number of containers whose stored hash was rewritten."] = 0
    unchanged: Annotated[Count, "Number of containers whose stored hash was already right."] = 0
    restarted: Annotated[Count, "Number of containers that were restarted. Should be 0."] = 0
    recreated: Annotated[
        Count, "Number of containers of static pods that were replaced because of kubelet.staticPods: Recreate."
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that was refused or failed."""

    node: Annotated[NameOfNode, "Name of the node."]
    reason: Annotated[str, "Why it failed, as one CamelCase word.", Field(max_length=limits.FAILURE_WORD_LENGTH)]
    step: Annotated[str | None, "The step that failed.", Field(max_length=limits.FAILURE_WORD_LENGTH)] = None
    message: Annotated[str, "Why it failed, for people.", Field(max_length=limits.FAILURE_MESSAGE_LENGTH)] = ""
    time: Annotated[datetime | None, "When it failed."] = None
    uid: Annotated[str, "UID of the Node. Empty if unknown.", Field(max_length=limits.UID_LENGTH)] = ""
    wave: Annotated[str, "The wave that the node belonged to.", Field(max_length=limits.LABEL_LENGTH)] = ""
    outcome: Annotated[
        Verdict | None,
        "Outcome of the run. If set, the failure counts until a retry, even if the Node or its task is deleted.",
    ] = None
    restarted: Annotated[
        int | None, "Number of containers that were restarted. Unset if unknown.", Field(minimum=0)
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The slot of a node in flight, written before the node is touched."""

    node: Annotated[NameOfNode, "Name of the node in flight."]
    uid: Annotated[str, "UID of the Node.", Field(max_length=limits.UID_LENGTH)] = ""
    wave: Annotated[str, "The wave that the node is upgraded in.", Field(max_length=limits.LABEL_LENGTH)] = ""
    run: Annotated[str, "ID of the run that the slot was given to.", Field(max_length=32)] = ""
    since: Annotated[datetime | None, "When the node took the slot."] = None
    missing_since: Annotated[datetime | None, "Since when the Node is missing. It may register again."] = None


class ConditionType(StrEnum):
    """The types of conditions."""

    ACCEPTED = "Accepted"
    PLANNED = "Planned"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    READY = "Ready"
    SUCCEEDED = "Succeeded"
    DEGRADED = "Degraded"
    ZERO_RESTART = "ZeroRestart"
    READINESS_GUARDED = "ReadinessGuarded"
    IMPEDED = "Impeded"
    HEALTHY = "Healthy"


class ConditionStatus(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A metav1.Condition."""

    type: Annotated[str, "What it is about, for example Ready.", Field(max_length=64)]
    status: Annotated[ConditionStatus, "Whether it holds."]
    reason: Annotated[str, "Reason, as one CamelCase word.", Field(max_length=64, pattern="[A-Za-z][A-Za-z0-9]*")]
    message: Annotated[str, "Message for people.", Field(max_length=limits.CONDITION_MESSAGE_LENGTH)]
    last_transition_time: Annotated[datetime, "When the status of the condition last changed."]
    observed_generation: Annotated[int, "The generation of the spec that this was derived from."] = 0


class RolloutPhase(StrEnum):
    """The phase of a rollout, for people; programs use the conditions."""

    PLANNING = "Planning"
    PLANNED = "Planned"
    PENDING = "Pending"
    QUEUED = "Queued"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    SOAKING = "Soaking"
    PAUSED = "Paused"
    STALLED = "Stalled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    ABORTED = "Aborted"


class WaveState(StrEnum):
    """The state of a wave."""

    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    SOAKING = "Soaking"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStatus:
    """The status of one wave."""

    name: Annotated[str, "Name of the wave.", Field(max_length=limits.LABEL_LENGTH)]
    state: Annotated[WaveState, "Phase of the wave."] = WaveState.PENDING
    total: Annotated[Count, "Number of nodes of the wave."] = 0
    succeeded: Annotated[Count, "Its nodes that were upgraded."] = 0
    skipped: Annotated[Count, "Its nodes that were skipped."] = 0
    refused: Annotated[Count, "Its nodes that were refused."] = 0
    failed: Annotated[Count, "Number of nodes that failed or were rolled back."] = 0
    in_progress: Annotated[Count, "Its nodes in flight."] = 0
    started_at: Annotated[datetime | None, "When its first node was started."] = None
    last_verdict_at: Annotated[
        datetime | None, "When a node of the wave was last finished, other than refused. The soak is counted from then."
    ] = None
    completed_at: Annotated[datetime | None, "When the last node of the wave was finished."] = None
    approved_by: Annotated[str | None, "Who or what approved the wave.", Field(max_length=limits.APPROVER_LENGTH)] = (
        None
    )
    approved_at: Annotated[datetime | None, "When it was approved."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentWave:
    """The current wave."""

    name: Annotated[str, "Name of the wave.", Field(max_length=limits.LABEL_LENGTH)]
    index: Annotated[int, "Position of the wave, counted from 1.", Field(minimum=1)]
    of: Annotated[int, "How many waves there are.", Field(minimum=1)]
    started_at: Annotated[datetime | None, "When its first node was started."] = None
    soak_until: Annotated[datetime | None, "When the soak of the wave ends."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """Result of action: Plan on the nodes."""

    checked: Annotated[Count, "Number of nodes that have reported."] = 0
    refused: Annotated[Count, "Number of these nodes that would be refused."] = 0
    rewritten: Annotated[Count, "Number of containers whose stored hash would be rewritten."] = 0
    would_restart: Annotated[Count, "Number of containers that a plain kubelet swap would restart."] = 0


_NEVER = datetime.min.replace(tzinfo=UTC)


@declared(Field(default={"observedGeneration": -1}))
@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """Status of the rollout, bounded for any size of fleet. Programs should use the conditions."""

    observed_generation: Annotated[
        int,
        "The generation of the spec that the status was derived from. -1 until the control plane has seen the object.",
        Field(defaulted=True),
    ] = -1
    accepted_spec_digest: Annotated[
        str, "Digest of the immutable fields of the spec, once it was accepted.", Field(max_length=80)
    ] = ""
    last_handled_retry: Annotated[
        str, "Token of the last retry that was carried out.", Field(max_length=limits.RETRY_TOKEN_LENGTH)
    ] = ""
    phase: Annotated[
        str, "Phase of the rollout, for people. Programs should use the conditions.", Field(max_length=32)
    ] = ""
    progress: Annotated[str, "Finished nodes out of all nodes.", Field(max_length=32)] = ""
    failed: Annotated[Count, "Number of nodes that failed or were rolled back."] = 0
    counts: Counts = Counts()
    containers: ContainerTotals = ContainerTotals()
    in_flight: Annotated[
        tuple[Slot, ...],
        "Nodes in flight. A node is listed here before it is touched.",
        Field(max_items=SLOTS, list_map_key="node"),
    ] = ()
    failures: Annotated[
        tuple[NodeFailure, ...], "Nodes that failed or were refused.", Field(max_items=limits.FAILURES_LISTED)
    ] = ()
    skips: Annotated[Mapping[str, Count] | None, "Number of skipped nodes by reason.", Field(max_properties=12)] = None
    accepted: Annotated[
        Mapping[str, Count] | None, "Number of nodes with accepted findings, by check.", Field(max_properties=16)
    ] = None
    current_wave: CurrentWave | None = None
    waves: Annotated[
        tuple[WaveStatus, ...], "All waves, in order.", Field(max_items=MOST_WAVES + 1, list_map_key="name")
    ] = ()
    ended_by_check: Annotated[
        str | None, "Name of the health check that ended the rollout.", Field(max_length=limits.LABEL_LENGTH)
    ] = None
    preview: PlanSummary | None = None
    next_window: Annotated[datetime | None, "When the next window opens."] = None
    last_progress: Annotated[
        datetime | None, "When a node last took or freed a slot or got a verdict, or when the last planned wait ended."
    ] = None
    leader: Annotated[
        str, "Term of office of the operator that took over the rollout last. Not for people.", Field(max_length=300)
    ] = ""
    planned_at: Annotated[datetime | None, "When all selected nodes had been claimed."] = None
    started_at: Annotated[datetime | None, "When the first node was started."] = None
    completed_at: Annotated[datetime | None, "When the rollout ended."] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Conditions: Accepted, Planned, Reconciling, Stalled, Ready, Succeeded, Degraded, ZeroRestart, "
        "ReadinessGuarded, Impeded, Healthy.",
        Field(max_items=16, list_map_key="type"),
    ] = ()

    @property
    def flying(self) -> tuple[NodeName, ...]:
        """The names of the nodes in flight."""
        return tuple(slot.node for slot in self.in_flight)

    def slot(self, name: NodeName) -> Slot | None:
        """Return the slot of a node; None if it holds none."""
        return next((slot for slot in self.in_flight if slot.node == name), None)

    def condition(self, kind: ConditionType) -> Condition:
        """Return one condition; if it was never set, its status is Unknown and its reason empty."""
        known = next((each for each in self.conditions if each.type == kind), None)
        return known or Condition(
            type=kind.value, status=ConditionStatus.UNKNOWN, reason="", message="", last_transition_time=_NEVER
        )

    @property
    def aborted(self) -> bool:
        """Whether the rollout ended because it was aborted."""
        return self.condition(ConditionType.SUCCEEDED).reason == Reason.ABORTED

    def holds(self, kind: ConditionType) -> bool:
        """Report whether a condition is True."""
        return self.condition(kind).status is ConditionStatus.TRUE

    def fails(self, kind: ConditionType) -> bool:
        """Report whether a condition is False."""
        return self.condition(kind).status is ConditionStatus.FALSE
