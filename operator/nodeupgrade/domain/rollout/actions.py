"""Actions that the rollout planner can return. Each carries the reason that events, logs and stories report."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, HookRun, RunVerdict, TaskSpec
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.status import NodeFailure, UpgradeStatus
from nodeupgrade.api.values import NodeName, PodUid, printable
from nodeupgrade.domain.agent_pods import AgentPodView, PodRole
from nodeupgrade.domain.nodes import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParameters:
    """The ConfigMap with the parameters of the readiness guard, as read from the API; see ``guard``."""

    data: Mapping[str, str]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeDecision(_Decision):
    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class _TaskDecision(_Decision):
    task: Task

    @property
    def node(self) -> NodeName:
        """The node of the task."""
        return self.task.name


@dataclass(frozen=True, slots=True, kw_only=True)
class _ViewDecision(_Decision):
    view: NodeView

    @property
    def node(self) -> NodeName:
        """Name of the node."""
        return self.view.name


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer(_Decision):
    """Add the finalizer, so that deletion waits for nodes in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer(_Decision):
    """Remove the finalizer, so that the API server can delete the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus(_Decision):
    """Replace the status. Only this write takes and frees slots, so two writers cannot both take the last one."""

    status: UpgradeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Decision):
    """Emit an event on the state of the rollout as a whole, because that changed."""

    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(_NodeDecision):
    """Give the node a slot (through the WriteStatus of the same plan)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlot(_NodeDecision):
    """Free the node's slot (through the WriteStatus of the same plan)."""

    failure: NodeFailure | None = None  # what that write puts on record of a node of which no task tells


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(_NodeDecision):
    """Create the node's task, or take over that of an ended rollout; the node then belongs to this one and waits."""

    spec: TaskSpec
    claims: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen(_TaskDecision):
    """Queue a node whose run is over for another run."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank(_TaskDecision):
    """Clear the task status of an earlier run, so that it is not mistaken for that of the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTask(_TaskDecision):
    """Write to the task of a node that is not started, so that no start takes effect that is still on its way.

    It succeeds only if none has taken effect before.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteHold(_TaskDecision):
    """Write down in the task since when the node is held by a pod, from which the pod's time runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(_NodeDecision):
    """Report that the node must not be touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(_Decision):
    """Report that nodes need nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveNews(_Decision):
    """Emit an event that a wave began or completed."""

    wave: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(_Decision):
    """Report that no further node is started now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(_NodeDecision):
    """Wait for the node in flight, or for time to pass."""

    until: datetime | None = None  # when the wait is over, if that is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon(_ViewDecision):
    """Cordon the node and record the owner of the cordon in the same write."""

    announces: bool = False  # whether the node's condition MaintenanceInProgress says so as well


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask(_NodeDecision):
    """Start the node's run: create its task, or claim the released one of another rollout."""

    spec: TaskSpec
    baseline: str
    claims: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAgent(_TaskDecision):
    """Create the agent pod on the node, or the pod of its artifact."""

    role: PodRole = PodRole.AGENT  # which of the two
    # for the agent, the pod that holds what was taken out of the artifact's image; None if there is none
    artifact: PodUid | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAgent(_Decision):
    """Delete the agent pod, or the pod of its artifact; what an agent started on the host is not affected."""

    pod: AgentPodView

    @property
    def node(self) -> NodeName:
        """The node that it runs on."""
        return self.pod.node


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHook(_TaskDecision):
    """Create the Job of a hook from its template."""

    hook: HookRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHook(_TaskDecision):
    """Record in the task how a hook ended."""

    hook: HookRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseGuard(_TaskDecision):
    """Keep the node's pods Ready until its kubelet has probed them: write the policy parameters, then the task."""

    parameters: GuardParameters
    changes: Mapping[str, str | None]
    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowGuard(_TaskDecision):
    """Shorten the guard to the time that the kubelet, which runs now, needs to probe its pods."""

    parameters: GuardParameters
    changes: Mapping[str, str | None]
    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineGuard(_TaskDecision):
    """Answer the node side that the node cannot be guarded."""

    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftGuard(_TaskDecision):
    """Remove the guard of the node."""

    parameters: GuardParameters
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(_TaskDecision):
    """Ask the node side to stop, and to roll back unless the run is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp(_TaskDecision):
    """Write the task status on behalf of the node side: no agent ran, or none got as far as a hand-over."""

    phase: TaskPhase  # Refused if no agent had started when the run was called off, else Failed

    def status(self, now: datetime) -> TaskStatus:
        """Return the status that the node side did not write."""
        return TaskStatus(
            run_id=self.task.spec.run_id,
            observed_generation=self.task.generation,
            phase=self.phase,
            reason=self.reason,
            message=shorten(printable(self.message)),
            finished_at=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(_TaskDecision):
    """Record the verdict of the control plane's own verification of the node."""

    verdict: RunVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCordon(_ViewDecision):
    """Uncordon the node, if the cordon is ours; before that, end our condition MaintenanceInProgress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(_TaskDecision):
    """Release the task, whose run is over or will never begin, so that another rollout may claim it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTask(_TaskDecision):
    """Delete the task of a node that is gone or was replaced by another one of the same name."""


UpgradeWrite: TypeAlias = AddFinalizer | RemoveFinalizer | WriteStatus
GuardWrite: TypeAlias = RaiseGuard | NarrowGuard | DeclineGuard | LiftGuard
_TaskWrite: TypeAlias = Claim | Reopen | Blank | StartTask | Abort | GiveUp | Judge | Release | DropTask
_TaskNote: TypeAlias = MarkTask | NoteHold | RecordHook
_OtherWrite: TypeAlias = Cordon | RestoreCordon | CreateAgent | DeleteAgent | StartHook
_Told: TypeAlias = Admit | FreeSlot | Refuse | Skip | WaveNews | Hold | Wait | Report
NodeAction: TypeAlias = UpgradeWrite | GuardWrite | _TaskWrite | _TaskNote | _OtherWrite | _Told

LOG_EVENTS: Mapping[type[NodeAction], str] = {
    AddFinalizer: "finalizer_added",
    RemoveFinalizer: "finalizer_removed",
    WriteStatus: "status_written",
    Report: "rollout_reported",
    Admit: "node_admitted",
    FreeSlot: "slot_freed",
    Claim: "node_claimed",
    Reopen: "task_reopened",
    Blank: "task_cleared",
    MarkTask: "task_marked",
    NoteHold: "hold_noted",
    Refuse: "node_refused",
    Skip: "nodes_skipped",
    WaveNews: "wave_reported",
    Hold: "rollout_waiting",
    Wait: "node_waiting",
    Cordon: "node_cordoned",
    StartTask: "task_started",
    CreateAgent: "agent_created",
    DeleteAgent: "agent_deleted",
    StartHook: "hook_started",
    RecordHook: "hook_recorded",
    RaiseGuard: "guard_raised",
    NarrowGuard: "guard_narrowed",
    DeclineGuard: "guard_declined",
    LiftGuard: "guard_lifted",
    Abort: "run_aborted",
    GiveUp: "run_given_up",
    Judge: "verdict_recorded",
    RestoreCordon: "cordon_restored",
    Release: "node_released",
    DropTask: "task_dropped",
}
"""The names under which actions are logged."""
