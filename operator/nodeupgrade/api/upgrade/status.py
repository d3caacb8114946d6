"""The status of a NodeUpgrade: what the control plane reports. Bounds keep it below 64 KiB for any size of fleet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from nodeupgrade.api.field import SET, Count, Field, NameOfNode
from nodeupgrade.api.limits import (
    APPROVER_LENGTH,
    CONDITION_MESSAGE_LENGTH,
    FAILURE_MESSAGE_LENGTH,
    FAILURES_LISTED,
    LABEL_LENGTH,
    RETRY_TOKEN_LENGTH,
)
from nodeupgrade.api.upgrade.waves import MOST_WAVES, SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of nodes by state; their sum is ``total``."""

    SCHEMA: ClassVar = Field("Nodes by how they stand; their sum is total.")

    total: Count = 0
    pending: Count = 0
    in_progress: Count = 0
    succeeded: Count = 0
    skipped: Annotated[Count, Field("Left alone on purpose.")] = 0
    refused: Annotated[Count, Field("Untouched, because something speaks against it.")] = 0
    failed: Annotated[Count, Field("Given up.")] = 0
    rolled_back: Count = 0
    rollback_failed: Annotated[Count, Field("They need a human.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTotals:
    """Numbers of containers on all nodes that have been verified."""

    SCHEMA: ClassVar = Field("Containers of the nodes that have been verified.")

    baseline: Annotated[Count, Field("Running before.")] = 0
    rewritten: Annotated[Count, Field("Whose stored hash was rewritten.")] = 0
    unchanged: Annotated[Count, Field("Whose stored hash was right for both versions.")] = 0
    restarted: Annotated[Count, Field("Which should be 0.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that was refused or failed."""

    SCHEMA: ClassVar = Field(first=("node", "step"))

    node: NameOfNode
    reason: Annotated[str, Field(max_length=64)]
    step: Annotated[str | None, Field("The step that failed.", max_length=64)] = None
    message: Annotated[str, Field(max_length=FAILURE_MESSAGE_LENGTH)] = ""
    time: datetime | None = None


class ConditionType(StrEnum):
    """The types of our conditions."""

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

    type: Annotated[str, Field(max_length=64)]
    status: ConditionStatus
    reason: Annotated[str, Field("In one word, for programs.", max_length=64, pattern="[A-Za-z][A-Za-z0-9]*")]
    message: Annotated[str, Field("In a sentence, for people.", max_length=CONDITION_MESSAGE_LENGTH)]
    last_transition_time: Annotated[datetime, Field("When the status last changed.")]
    observed_generation: Annotated[int, Field("The generation of the spec that this is about.")] = 0


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

    name: Annotated[str, Field(max_length=LABEL_LENGTH)]
    state: Annotated[WaveState, Field("Where the wave is.")] = WaveState.PENDING
    total: Annotated[Count, Field("Its nodes.")] = 0
    succeeded: Count = 0
    skipped: Count = 0
    refused: Count = 0
    failed: Annotated[Count, Field("Nodes that failed or were rolled back.")] = 0
    in_progress: Count = 0
    started_at: datetime | None = None
    completed_at: Annotated[datetime | None, Field("When its last node was finished.")] = None
    approved_by: Annotated[str | None, Field("Who or what approved it.", max_length=APPROVER_LENGTH)] = None
    approved_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentWave:
    """The wave in progress: number ``index`` of ``of`` waves."""

    SCHEMA: ClassVar = Field("The wave that is worked on.")

    name: Annotated[str, Field(max_length=LABEL_LENGTH)]
    index: Annotated[int, Field("Counted from 1.", minimum=1)]
    of: Annotated[int, Field(minimum=1)]
    started_at: datetime | None = None
    soak_until: Annotated[datetime | None, Field("When the rest after its last node is over.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What ``action: Plan`` found on the nodes."""

    SCHEMA: ClassVar = Field("What action Plan found on the nodes.")

    checked: Annotated[Count, Field("Nodes that have reported.")] = 0
    refused: Annotated[Count, Field("Of these, nodes that would be refused.")] = 0
    rewritten: Annotated[Count, Field("Containers whose stored hash would be rewritten.")] = 0
    would_restart: Annotated[Count, Field("Containers that a plain kubelet swap would restart.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """What the control plane reports; bounded for any size of fleet."""

    SCHEMA: ClassVar = Field(
        "What is true of the rollout; programs use the conditions.", defaulted=True, default={"observedGeneration": -1}
    )

    observed_generation: Annotated[
        int,
        Field(
            "The generation of the spec that this is about; -1 before the control plane has seen the object.",
            defaulted=True,
        ),
    ] = -1
    accepted_spec_digest: Annotated[
        str, Field("Of what may not be changed in the spec, once it was accepted.", max_length=80)
    ] = ""
    last_handled_retry: Annotated[
        str, Field("The token of the last retry that was carried out.", max_length=RETRY_TOKEN_LENGTH)
    ] = ""
    phase: Annotated[str, Field("For people only; programs use the conditions.", max_length=32)] = ""
    progress: Annotated[str, Field("Nodes that are finished, of all nodes.", max_length=32)] = ""
    failed: Annotated[Count, Field("Nodes that failed or were rolled back.")] = 0
    counts: Counts = Counts()
    containers: ContainerTotals = ContainerTotals()
    in_flight: Annotated[
        tuple[NameOfNode, ...],
        SET,
        Field("Nodes that hold a slot; written before a node is touched.", max_items=SLOTS),
    ] = ()
    failures: Annotated[tuple[NodeFailure, ...], Field("The latest of them.", max_items=FAILURES_LISTED)] = ()
    skips: Annotated[Mapping[str, Count] | None, Field("Reason to number of nodes.", max_properties=24)] = None
    accepted: Annotated[
        Mapping[str, Count] | None,
        Field("Accepted checks that found something, to the number of nodes.", max_properties=16),
    ] = None
    current_wave: CurrentWave | None = None
    waves: Annotated[
        tuple[WaveStatus, ...], Field("All waves, in order.", max_items=MOST_WAVES + 1, list_map_key="name")
    ] = ()
    ended_by_check: Annotated[
        str | None, Field("The health check that has ended the rollout, for good.", max_length=LABEL_LENGTH)
    ] = None
    preview: PlanSummary | None = None
    next_window: Annotated[datetime | None, Field("When nodes may be started again.")] = None
    planned_at: Annotated[datetime | None, Field("When every selected node had been claimed.")] = None
    started_at: Annotated[datetime | None, Field("When the first node was started.")] = None
    completed_at: Annotated[datetime | None, Field("When the rollout was over.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            "Accepted, Planned, Reconciling, Stalled, Ready, Succeeded, Degraded, ZeroRestart, ReadinessGuarded.",
            max_items=16,
            list_map_key="type",
        ),
    ] = ()
