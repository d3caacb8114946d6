"""A node in flight, and all that its next action depends on."""

from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.task.run_id import kind_of
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.status import Slot
from nodeupgrade.api.values import NodeName, RunKind
from nodeupgrade.cluster.agent_pods import AgentPodView
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.fleet.actions import CreateAgent, GuardParameters, StartHook
from nodeupgrade.fleet.agents.lifecycle import Agents
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.hooks.hooks import HookJobs
from nodeupgrade.fleet.setbacks import LostAgents, Setback
from nodeupgrade.fleet.snapshot import FleetSnapshot, KnownNode
from nodeupgrade.kubelet import history


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """A node that holds a slot."""

    slot: Slot
    now: datetime  # wall-clock time, UTC
    upgrade: Upgrade
    known: KnownNode
    candidate: Candidate | None  # None if there is no Node, or the spec is not accepted, so that no run may begin
    missing: bool  # whether there is no Node and there may be a run without a verdict
    pods: tuple[Pod, ...] | None  # the node's pods; None if they have not been read
    agents: Agents
    guard: GuardParameters | None  # see ``FleetSnapshot``, as the next three
    guard_obstacle: str | None
    hook_jobs: HookJobs
    epoch: str
    hook_refused: Setback | None  # the failed attempts to create a Job
    unanswered: bool  # whether its start was not answered, so that it may take effect any time later
    announces: bool  # whether a cordon is announced by a condition of the Node

    @property
    def kind(self) -> RunKind:
        """What the slot was taken for."""
        return kind_of(self.slot.run)

    @classmethod
    def of(cls, fleet: FleetSnapshot, slot: Slot, spec: UpgradeSpec | None, now: datetime) -> "InFlight":
        """Return what a snapshot shows of a node in flight."""
        name, known = slot.node, fleet.known(slot.node)
        lost, run = fleet.agents_lost.get(name), None if known.task is None else known.task.spec.run_id
        agents = Agents(
            pod=fleet.agents.get(name),
            artifact=fleet.artifacts.get(name),
            lost=LostAgents() if lost is None or lost.run_id != run else lost,
            refused=fleet.setbacks.get((name, CreateAgent)),
        )
        return cls(
            slot=slot,
            now=now,
            upgrade=fleet.upgrade,
            known=known,
            candidate=None if spec is None or known.view is None else Candidate.of(fleet, spec, known.view, now),
            missing=fleet.is_missing(name),
            pods=fleet.pods.get(name),
            agents=agents,
            guard=fleet.guard,
            guard_obstacle=fleet.guard_obstacle,
            hook_jobs=fleet.hook_jobs,
            epoch=fleet.epoch,
            hook_refused=fleet.setbacks.get((name, StartHook)),
            unanswered=name in fleet.starts_unanswered,
            announces=history.NODE_LIFECYCLE_CONDITIONS.applies_to(fleet.server),
        )

    @property
    def name(self) -> NodeName:
        """Name of the node."""
        return self.slot.node

    @property
    def cordoned_by_us(self) -> bool:
        """Whether the cordon of the node is this rollout's."""
        return self.known.view is not None and self.known.view.cordoned_by == self.upgrade.uid

    @property
    def leftover_pods(self) -> tuple[AgentPodView, ...]:
        """The pods of its run that are still to be deleted."""
        found = (self.agents.pod, self.agents.artifact)
        return tuple(pod for pod in found if pod is not None and not pod.deleting)
