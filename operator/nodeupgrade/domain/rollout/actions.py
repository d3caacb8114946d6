"""What the rollout can decide to do. Each decision carries the reason that events, logs and stories repeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import GuardGrant, RunVerdict, TaskSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.agent_pods import AgentPodView
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.rollout.guard import GuardParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeDecision(_Decision):
    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFinalizer(_Decision):
    """Make sure that deletion waits for nodes in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFinalizer(_Decision):
    """Let the deleted object go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus(_Decision):
    """Report. Slots are taken and given back by this write alone, so two writers cannot both take the last one."""

    status: UpgradeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(_Decision):
    """Tell how the rollout as a whole stands, because that changed."""

    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit(_NodeDecision):
    """Give the node a slot (with the WriteStatus of the same plan)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlot(_NodeDecision):
    """Take the slot back (with the WriteStatus of the same plan)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(_NodeDecision):
    """Make the node's task, or take over that of a rollout that ended: the node belongs to this rollout and waits."""

    spec: TaskSpec
    claims: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopen(_NodeDecision):
    """Let a node whose run is over wait for another one."""

    task: Task
    spec: TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank(_NodeDecision):
    """Clear what the node side said of an earlier run, so that nobody takes it for news of the one to come."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(_NodeDecision):
    """The node must not be touched, and is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(_Decision):
    """These nodes need nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveNews(_Decision):
    """Tell that a wave began or is over."""

    wave: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold(_Decision):
    """No further node is started now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(_NodeDecision):
    """The node in flight has to do something first, or time has to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon(_NodeDecision):
    """Mark the node unschedulable, and in the same write whose cordon it is."""

    view: NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTask(_NodeDecision):
    """Create the node's task, or claim the released one of another rollout, with leave to begin."""

    spec: TaskSpec
    baseline: str
    claims: Task | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAgent(_NodeDecision):
    """Run the agent on the node."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAgent(_NodeDecision):
    """Remove the agent pod; what it started on the host is not affected."""

    pod: AgentPodView


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseGuard(_NodeDecision):
    """Keep the node's pods Ready until its kubelet has probed them: tell the policies first, then the node side."""

    task: Task
    parameters: GuardParameters
    changes: Mapping[str, str | None]
    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowGuard(_NodeDecision):
    """Guard the node for no longer than its kubelet, which runs now, needs to probe its pods."""

    task: Task
    parameters: GuardParameters
    changes: Mapping[str, str | None]
    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineGuard(_NodeDecision):
    """Tell the node side that the node cannot be guarded."""

    task: Task
    grant: GuardGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftGuard(_NodeDecision):
    """Guard the node no more."""

    task: Task
    parameters: GuardParameters
    changes: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Abort(_NodeDecision):
    """Ask the node side to stop, and to roll back unless it is past the point of no return."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp(_NodeDecision):
    """Report in the node side's place that no agent ever ran."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(_NodeDecision):
    """Record what the control plane found when it verified the node by itself."""

    task: Task
    verdict: RunVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCordon(_NodeDecision):
    """Undo our cordon, and nobody else's."""

    view: NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(_NodeDecision):
    """Give the task back: its run is accounted for, or there will be none; another rollout may claim it."""

    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTask(_NodeDecision):
    """Delete the task of a node that is gone, or was replaced by another of the same name."""

    task: Task


NodeAction: TypeAlias = (
    AddFinalizer
    | RemoveFinalizer
    | WriteStatus
    | Report
    | Admit
    | FreeSlot
    | Claim
    | Reopen
    | Blank
    | Refuse
    | Skip
    | WaveNews
    | Hold
    | Wait
    | Cordon
    | StartTask
    | CreateAgent
    | DeleteAgent
    | RaiseGuard
    | NarrowGuard
    | DeclineGuard
    | LiftGuard
    | Abort
    | GiveUp
    | Judge
    | RestoreCordon
    | Release
    | DropTask
)
