"""The status of a NodeUpgrade: what the control plane reports, bounded whatever the size of the fleet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.values import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Nodes by how they stand; their sum is ``total``."""

    total: int = 0
    pending: int = 0
    in_progress: int = 0
    succeeded: int = 0
    skipped: int = 0
    refused: int = 0
    failed: int = 0
    rolled_back: int = 0
    rollback_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTotals:
    """Containers over all nodes that have been verified."""

    baseline: int = 0
    rewritten: int = 0
    unchanged: int = 0
    restarted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailure:
    """A node that was refused or failed (message at most 256 characters)."""

    node: str
    reason: str
    step: str | None = None
    message: str = ""
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A metav1.Condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int = 0


class WaveState(StrEnum):
    """Where a wave is."""

    PENDING = "Pending"
    AWAITING_APPROVAL = "AwaitingApproval"
    RUNNING = "Running"
    SOAKING = "Soaking"
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStatus:
    """One wave; ``failed`` includes nodes that were rolled back, ``approved_by`` says who or what approved it."""

    name: str
    state: WaveState = WaveState.PENDING
    total: int = 0
    succeeded: int = 0
    skipped: int = 0
    refused: int = 0
    failed: int = 0
    in_progress: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    approved_by: str | None = None
    approved_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentWave:
    """The wave that is worked on: ``index`` of ``of``, counted from 1."""

    name: str
    index: int
    of: int
    started_at: datetime | None = None
    soak_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What ``action: Plan`` found on the nodes.

    Attributes:
        checked: nodes that have reported.
        refused: of these, nodes that would be refused.
        rewritten: containers whose stored hash would be rewritten.
        would_restart: containers that a plain kubelet swap would restart.
    """

    checked: int = 0
    refused: int = 0
    rewritten: int = 0
    would_restart: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """What the control plane reports; bounded whatever the size of the fleet.

    Attributes:
        accepted_spec_digest: of what may not change any more, once the first node was claimed.
        planned_at: when every selected node had been claimed; from then on membership is a snapshot.
        last_handled_retry: the token of the last retry that was carried out.
    """

    observed_generation: int = -1
    accepted_spec_digest: str = ""
    last_handled_retry: str = ""
    phase: str = ""
    progress: str = ""
    failed: int = 0
    counts: Counts = Counts()
    containers: ContainerTotals = ContainerTotals()
    in_flight: tuple[NodeName, ...] = ()
    failures: tuple[NodeFailure, ...] = ()
    skips: Mapping[str, int] | None = None
    current_wave: CurrentWave | None = None
    waves: tuple[WaveStatus, ...] = ()
    preview: PlanSummary | None = None
    next_window: datetime | None = None
    planned_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    conditions: tuple[Condition, ...] = ()
