"""Actions that the rollout planner can return. Each carries the reason that events, logs and stories report."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, TypeAlias, dataclass_transform

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.printable import printable
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, HookRun, RunVerdict, TaskSpec
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.status import NodeFailure, UpgradeStatus
from nodeupgrade.api.values import NodeName, PodUid
from nodeupgrade.cluster.agent_pods import AgentPodView, PodRole
from nodeupgrade.cluster.nodes import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParameters:
    """The ConfigMap with the parameters of the readiness guard, as read from the API; see ``guard``."""

    data: Mapping[str, str]
    resource_version: str


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Action:
    """Makes every action frozen data, and notes the name under which it is logged."""

    log_event: ClassVar[str]

    def __init_subclass__(cls, *, logged: str = "") -> None:
        cls.log_event = logged
        dataclass(frozen=True, kw_only=True)(cls)


class _Decision(_Action):
    reason: Reason
    message: str


class _NodeDecision(_Decision):
    node: NodeName


class _TaskDecision(_Decision):
    task: Task

    @property
    def node(self) -> NodeName:
        """The node of the task."""
        return self.task.name


class _ViewDecision(_Decision):
    view: NodeView

    @property
    def node(self) -> NodeName:
        """Name of the node."""
        return self.view.name


class _GuardDecision(_TaskDecision):
    parameters: GuardParameters  # as they were read
    changes: Mapping[str, str | None]  # entries to set; None removes one


class AddFinalizer(_Decision, logged="finalizer_added"):
    """Add the finalizer, so that deletion waits for nodes in flight."""


class RemoveFinalizer(_Decision, logged="finalizer_removed"):
    """Remove the finalizer, so that the API server can delete the object."""


class WriteStatus(_Decision, logged="status_written"):
    """Replace the status. Only this write takes and frees slots, so two writers cannot both take the last one."""

    status: UpgradeStatus


class Report(_Decision, logged="rollout_reported"):
    """Emit an event on the state of the rollout as a whole, because that changed."""

    warning: bool = False


class Admit(_NodeDecision, logged="node_admitted"):
    """Give the node a slot (through the WriteStatus of the same plan)."""


class FreeSlot(_NodeDecision, logged="slot_freed"):
    """Free the node's slot (through the WriteStatus of the same plan)."""

    failure: NodeFailure | None = None  # what that write puts on record of a node of which no task tells


class Claim(_NodeDecision, logged="node_claimed"):
    """Create the node's task, or take over that of an ended rollout; the node then belongs to this one and waits."""

    spec: TaskSpec
    claims: Task | None = None


class Reopen(_TaskDecision, logged="task_reopened"):
    """Queue a node whose run is over for another run."""

    spec: TaskSpec


class Blank(_TaskDecision, logged="task_cleared"):
    """Clear the task status of an earlier run, so that it is not mistaken for that of the next one."""


class MarkTask(_TaskDecision, logged="task_marked"):
    """Write to the task of a node that is not started, so that no start takes effect that is still on its way.

    It succeeds only if none has taken effect before.
    """


class NoteHold(_TaskDecision, logged="hold_noted"):
    """Write down in the task since when the node is held by a pod, from which the pod's time runs."""


class Refuse(_NodeDecision, logged="node_refused"):
    """Report that the node must not be touched."""


class Skip(_Decision, logged="nodes_skipped"):
    """Report that nodes need nothing."""


class WaveNews(_Decision, logged="wave_reported"):
    """Emit an event that a wave began or completed."""

    wave: str


class Hold(_Decision, logged="rollout_waiting"):
    """Report that no further node is started now."""


class Wait(_NodeDecision, logged="node_waiting"):
    """Wait for the node in flight, or for time to pass."""

    until: datetime | None = None  # when the wait is over, if that is known


class Cordon(_ViewDecision, logged="node_cordoned"):
    """Cordon the node and record the owner of the cordon in the same write."""

    announces: bool = False  # whether the node's condition MaintenanceInProgress says so as well


class StartTask(_NodeDecision, logged="task_started"):
    """Start the node's run: create its task, or claim the released one of another rollout."""

    spec: TaskSpec
    baseline: str
    claims: Task | None = None


class CreateAgent(_TaskDecision, logged="agent_created"):
    """Create the agent pod on the node, or the pod of its artifact."""

    role: PodRole = PodRole.AGENT  # which of the two
    # for the agent, the pod that holds what was taken out of the artifact's image; None if there is none
    artifact: PodUid | None = None


class DeleteAgent(_Decision, logged="agent_deleted"):
    """Delete the agent pod, or the pod of its artifact; what an agent started on the host is not affected."""

    pod: AgentPodView

    @property
    def node(self) -> NodeName:
        """The node that it runs on."""
        return self.pod.node


class StartHook(_TaskDecision, logged="hook_started"):
    """Create the Job of a hook from its template."""

    hook: HookRun


class RecordHook(_TaskDecision, logged="hook_recorded"):
    """Record in the task how a hook ended."""

    hook: HookRun


class RaiseGuard(_GuardDecision, logged="guard_raised"):
    """Keep the node's pods Ready until its kubelet has probed them: write the policy parameters, then the task."""

    grant: GuardGrant


class NarrowGuard(_GuardDecision, logged="guard_narrowed"):
    """Shorten the guard to the time that the kubelet, which runs now, needs to probe its pods."""

    grant: GuardGrant


class DeclineGuard(_TaskDecision, logged="guard_declined"):
    """Answer the node side that the node cannot be guarded."""

    grant: GuardGrant


class LiftGuard(_GuardDecision, logged="guard_lifted"):
    """Remove the guard of the node."""


class Abort(_TaskDecision, logged="run_aborted"):
    """Ask the node side to stop, and to roll back unless the run is committed."""


class GiveUp(_TaskDecision, logged="run_given_up"):
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


class Judge(_TaskDecision, logged="verdict_recorded"):
    """Record the verdict of the control plane's own verification of the node."""

    verdict: RunVerdict


class RestoreCordon(_ViewDecision, logged="cordon_restored"):
    """Uncordon the node, if the cordon is ours; before that, end our condition MaintenanceInProgress."""


class Release(_TaskDecision, logged="node_released"):
    """Release the task, whose run is over or will never begin, so that another rollout may claim it."""


class DropTask(_TaskDecision, logged="task_dropped"):
    """Delete the task of a node that is gone or was replaced by another one of the same name."""


UpgradeWrite: TypeAlias = AddFinalizer | RemoveFinalizer | WriteStatus
GuardWrite: TypeAlias = RaiseGuard | NarrowGuard | DeclineGuard | LiftGuard
_TaskWrite: TypeAlias = Claim | Reopen | Blank | StartTask | Abort | GiveUp | Judge | Release | DropTask
_TaskNote: TypeAlias = MarkTask | NoteHold | RecordHook
_OtherWrite: TypeAlias = Cordon | RestoreCordon | CreateAgent | DeleteAgent | StartHook
Write: TypeAlias = UpgradeWrite | GuardWrite | _TaskWrite | _TaskNote | _OtherWrite
Told: TypeAlias = Admit | FreeSlot | Refuse | Skip | WaveNews | Hold | Wait | Report
"""Done by the status write of the same plan, or merely reported."""
NodeAction: TypeAlias = Write | Told
