"""Actions that the rollout planner can return. Each carries the reason that events, logs and stories report."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, TypeAlias, dataclass_transform

from nodeupgrade.api.limits import HOOK_MESSAGE_LENGTH
from nodeupgrade.api.printable import stored
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, HookResult, HookRun, RunVerdict, TaskSpec
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.status import NodeFailure, UpgradeStatus
from nodeupgrade.api.values import NodeName, PodUid
from nodeupgrade.cluster.agent_pods import AgentPodView, PodRole
from nodeupgrade.cluster.nodes import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParameters:
    """The ConfigMap with the parameters of the readiness guard, as the API serves it; see ``guard``."""

    data: Mapping[str, str]
    resource_version: str


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _Action:
    """Makes every action a frozen dataclass with the name of its log event."""

    log_event: ClassVar[str]

    def __init_subclass__(cls, *, logged: str = "") -> None:
        cls.log_event = logged
        dataclass(frozen=True, kw_only=True)(cls)


class _ReasonedAction(_Action):
    reason: Reason
    message: str


class _NodeAction(_ReasonedAction):
    node: NodeName


class _OnTask(_ReasonedAction):
    task: Task

    @property
    def node(self) -> NodeName:
        return self.task.name


class _OnNodeView(_ReasonedAction):
    view: NodeView

    @property
    def node(self) -> NodeName:
        return self.view.name


class _OnGuard(_OnTask):
    parameters: GuardParameters  # as they were read
    changes: Mapping[str, str | None]  # entries to set; None removes one


class AddFinalizer(_ReasonedAction, logged="finalizer_added"):
    """Add the finalizer, so that deletion waits for nodes in flight."""


class RemoveFinalizer(_ReasonedAction, logged="finalizer_removed"):
    """Remove the finalizer, so that the API server can delete the object."""


class WriteStatus(_ReasonedAction, logged="status_written"):
    """Replace the status. Only this write takes and frees slots, so two writers cannot both take the last slot."""

    status: UpgradeStatus


class Report(_ReasonedAction, logged="rollout_reported"):
    """Emit an event because the state of the rollout as a whole changed."""

    warning: bool = False


class Admit(_NodeAction, logged="node_admitted"):
    """Give the node a slot (through the WriteStatus of the same plan)."""


class FreeSlot(_NodeAction, logged="slot_freed"):
    """Free the node's slot (through the WriteStatus of the same plan)."""

    failure: NodeFailure | None = None  # what that write puts on record for a node without a task
    # when its run was judged, unless as refused; Node and task may be gone by the time of that write
    judged: datetime | None = None


class Claim(_NodeAction, logged="node_claimed"):
    """Make a waiting node a member of this rollout: create its task, or take over the task of an ended rollout."""

    spec: TaskSpec
    claims: Task | None = None


class Reopen(_OnTask, logged="task_reopened"):
    """Queue a node for another run."""

    spec: TaskSpec


class ClearTaskStatus(_OnTask, logged="task_cleared"):
    """Clear the task status of an earlier run, so that it is not taken for the next run's."""


class MarkTask(_OnTask, logged="task_marked"):
    """Write to the task of a node that is not started, which voids a start that is still on its way.

    The write fails if such a start has taken effect.
    """


class RecordHold(_OnTask, logged="hold_noted"):
    """Record in the task since when a pod holds the node; the pod's time runs from then."""


class Refuse(_NodeAction, logged="node_refused"):
    """Report that the node must not be touched."""


class Skip(_ReasonedAction, logged="nodes_skipped"):
    """Report that nodes need no upgrade."""


class ReportWave(_ReasonedAction, logged="wave_reported"):
    """Emit an event because a wave began or completed."""

    wave: str


class Hold(_ReasonedAction, logged="rollout_waiting"):
    """Report why no further node is started now."""


class Wait(_NodeAction, logged="node_waiting"):
    """Wait for the node in flight, or for time to pass."""

    until: datetime | None = None  # when the wait ends, if known


class Cordon(_OnNodeView, logged="node_cordoned"):
    """Cordon the node and record the owner of the cordon in the same write."""

    announces: bool = False  # whether to set the Node's condition MaintenanceInProgress too


class StartTask(_NodeAction, logged="task_started"):
    """Start the node's run: create its task, or claim the released one of another rollout."""

    spec: TaskSpec
    baseline: str
    claims: Task | None = None


class CreateAgent(_OnTask, logged="agent_created"):
    """Create the agent pod on the node, or the pod of its artifact."""

    role: PodRole = PodRole.AGENT
    artifact: PodUid | None = None  # for the agent: the pod that holds the files of the artifact's image, if any


class DeleteAgent(_ReasonedAction, logged="agent_deleted"):
    """Delete the agent pod, or the pod of its artifact; an executor on the host is not affected."""

    pod: AgentPodView

    @property
    def node(self) -> NodeName:
        """The node of the pod."""
        return self.pod.node


class StartHook(_OnTask, logged="hook_started"):
    """Create the Job of a hook from its template."""

    hook: HookRun


class RecordHook(_OnTask, logged="hook_recorded"):
    """Record the result of a hook in the task."""

    hook: HookRun
    result: HookResult
    problem: str  # why it failed

    @property
    def hooks(self) -> tuple[HookRun, ...]:
        """The hooks of the task, this one with its result."""
        done = replace(self.hook, result=self.result, message=stored(self.problem, HOOK_MESSAGE_LENGTH))
        same = (done.phase, done.template)
        return tuple(done if (hook.phase, hook.template) == same else hook for hook in self.task.spec.hooks)


class RaiseGuard(_OnGuard, logged="guard_raised"):
    """Keep the node's pods Ready until its kubelet has probed them."""

    reason: Reason = Reason.READINESS_GUARD_RAISED
    grant: GuardGrant


class NarrowGuard(_OnGuard, logged="guard_narrowed"):
    """Shorten the guard to the time that the kubelet, which now runs, needs to probe its pods."""

    reason: Reason = Reason.READINESS_GUARD_RAISED
    grant: GuardGrant


class DeclineGuard(_OnTask, logged="guard_declined"):
    """Answer that the node cannot be guarded."""

    reason: Reason = Reason.READINESS_GUARD_UNAVAILABLE
    grant: GuardGrant


class LiftGuard(_OnGuard, logged="guard_lifted"):
    """Remove the guard of the node."""

    reason: Reason = Reason.READINESS_GUARD_LIFTED


class Abort(_OnTask, logged="run_aborted"):
    """Ask the node side to stop, and to roll back unless the run is committed."""


class GiveUp(_OnTask, logged="run_given_up"):
    """Write the task status on behalf of the node side: no agent has started an executor."""

    phase: TaskPhase  # Refused if no agent had started when the run was aborted, else Failed

    def status(self, now: datetime) -> TaskStatus:
        """Return the status."""
        return TaskStatus(
            run_id=self.task.spec.run_id,
            observed_generation=self.task.generation,
            phase=self.phase,
            reason=self.reason,
            message=stored(self.message),
            finished_at=now,
        )


class Judge(_OnTask, logged="verdict_recorded"):
    """Record the control plane's own verdict on the node."""

    verdict: RunVerdict


class RestoreCordon(_OnNodeView, logged="cordon_restored"):
    """Remove our condition MaintenanceInProgress, then uncordon the node if the cordon is ours."""


class ReleaseTask(_OnTask, logged="node_released"):
    """Release a task whose run is over or will never begin, so that another rollout can claim it."""


class DropTask(_OnTask, logged="task_dropped"):
    """Delete the task of a Node that is gone."""


UpgradeWrite: TypeAlias = AddFinalizer | RemoveFinalizer | WriteStatus
GuardWrite: TypeAlias = RaiseGuard | NarrowGuard | DeclineGuard | LiftGuard
_TaskWrite: TypeAlias = Claim | Reopen | ClearTaskStatus | StartTask | Abort | GiveUp | Judge | ReleaseTask | DropTask
_TaskNote: TypeAlias = MarkTask | RecordHold | RecordHook
_OtherWrite: TypeAlias = Cordon | RestoreCordon | CreateAgent | DeleteAgent | StartHook
Write: TypeAlias = UpgradeWrite | GuardWrite | _TaskWrite | _TaskNote | _OtherWrite
ReportOnly: TypeAlias = Admit | FreeSlot | Refuse | Skip | ReportWave | Hold | Wait | Report
"""Actions without a write of their own: the status write of the same plan has their effect, if they have one."""
NodeAction: TypeAlias = Write | ReportOnly
