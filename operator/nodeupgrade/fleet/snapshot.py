"""The input of the rollout planner, gathered at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind, began_at
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AgentPodView
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.fleet.actions import DeleteAgent, FreeSlot, GuardParameters, NodeAction, Wait
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.health.checks import HealthReading
from nodeupgrade.fleet.hooks.hooks import HookJobs
from nodeupgrade.fleet.setbacks import FORGOTTEN_AFTER, LONGEST, Setback, Setbacks, next_setback
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.sources.allowlist import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAgents:
    """The agents of one run that ended early."""

    run_id: str = ""
    count: int = 0  # how many in a row
    why: str = ""  # why the last one ended of which the kubelet says so; empty if it says so of none


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Writes that failed, and agents that ended early, by node."""

    writes: Setbacks = field(default_factory=dict)
    agents_lost: Mapping[NodeName, LostAgents] = field(default_factory=dict)  # the agents of its run

    def setbacks(self, now: datetime) -> Setbacks:
        """Return the setbacks that are still retried."""
        return {key: setback for key, setback in self.writes.items() if now < setback.again + FORGOTTEN_AFTER}

    def succeeded(self, action: NodeAction, now: datetime) -> "FailureHistory":
        """Return the history after an action that succeeded."""
        if (node := getattr(action, "node", None)) is None:
            return self
        writes = {key: setback for key, setback in self.setbacks(now).items() if key != (node, type(action))}
        if not isinstance(action, DeleteAgent) or action.pod.deleting:
            return replace(self, writes=writes)
        known, pod = self.agents_lost.get(node, LostAgents()), action.pod
        same = known.run_id == pod.run_id
        again = same and now - pod.created_at < 2 * LONGEST  # an agent that ended stays for up to LONGEST
        why = pod.ended or (known.why if same else "")
        lost = LostAgents(run_id=pod.run_id, count=known.count + 1 if again else 1, why=why)
        return FailureHistory(writes=writes, agents_lost={**self.agents_lost, node: lost})

    def failed(self, action: NodeAction, problem: str, now: datetime) -> "FailureHistory":
        """Return the history after an action that failed, mostly one that the API server refused or did not answer."""
        if (node := getattr(action, "node", None)) is None:
            return self
        key, writes = (node, type(action)), self.setbacks(now)
        return replace(self, writes={**writes, key: next_setback(writes.get(key), type(action), problem, now)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSnapshot:
    """One rollout and the part of the cluster that concerns it."""

    upgrade: Upgrade
    server: KubeletVersion  # version of the API server
    nodes: Mapping[NodeName, NodeView]
    tasks: Mapping[NodeName, Task] = field(default_factory=dict)
    # by node, only for those that ``planner.plan`` or ``flight.needs_pods`` requested
    pods: Mapping[NodeName, tuple[Pod, ...]] = field(default_factory=dict)
    agents: Mapping[NodeName, AgentPodView] = field(default_factory=dict)
    # the pods that take kubelets out of images
    artifacts: Mapping[NodeName, AgentPodView] = field(default_factory=dict)
    active_upgrades: frozenset[str] = frozenset()  # UIDs of all NodeUpgrades that have not ended, this one included
    # why this version cannot parse the Node or its task; such a node is left alone
    unreadable: Mapping[NodeName, str] = field(default_factory=dict)
    rivals: tuple[Upgrade, ...] = ()  # the other NodeUpgrades that have not ended, as far as they can be parsed
    operator_node: NodeName | None = None  # the node that the operator itself runs on; it goes last in its wave
    # parameters of the readiness guard; None if they do not exist or are not needed
    guard: GuardParameters | None = None
    setbacks: Setbacks = field(default_factory=dict)  # writes that failed lately
    agents_lost: Mapping[NodeName, LostAgents] = field(default_factory=dict)  # agents of its run that ended early
    api_servers: tuple[KubeletVersion, ...] = ()  # versions of the API servers that run as visible pods
    # what reconciled nodes in flight wait for; at last, for their slots to be freed
    waiting: Mapping[NodeName, Wait | FreeSlot] = field(default_factory=dict)
    # nodes whose start was not answered, so that it may take effect any time later
    starts_unanswered: frozenset[NodeName] = frozenset()
    health: Mapping[str, HealthReading] = field(default_factory=dict)  # by name of the health check
    hook_jobs: HookJobs = field(default_factory=HookJobs)  # only those of the reconciled node
    epoch: str = ""  # the mark of this leader's term on objects; empty if there is no other writer
    cluster_budget: ClusterBudget = ClusterBudget()  # what all rollouts together may take
    allowed: Allowed | None = None  # what the operator's configuration allows; None if that is unknown

    @property
    def done(self) -> dict[NodeName, FreeSlot]:
        """Nodes in flight that no longer need their slots, with the actions that free them.

        A node that was given up because its Node was gone needs its slot if it has registered again meanwhile.
        """
        freed = ((name, action) for name, action in self.waiting.items() if isinstance(action, FreeSlot))
        return {name: action for name, action in freed if action.failure is None or name not in self.nodes}

    @property
    def slots(self) -> dict[NodeName, Slot]:
        """The slots of the nodes in flight, sorted by name.

        An open task of this rollout holds one even if the status, edited or restored from a backup, does not list it:
        the budget must hold all the same.
        """
        slots = {slot.node: slot for slot in self.upgrade.status.in_flight}
        for name, task in self.tasks.items():
            if name not in slots and task.open and self.own_task(name) is not None:
                spec = task.spec
                uid, since = stored_uid(spec.node_uid), began_at(spec.run_id)
                slots[name] = Slot(node=name, uid=uid, wave=spec.wave, run=spec.run_id, since=since)
        return dict(sorted(slots.items()))

    @property
    def in_flight(self) -> tuple[NodeName, ...]:
        """The nodes that hold a slot, sorted by name."""
        return tuple(self.slots)

    @property
    def needs_guard(self) -> bool:
        """Whether the parameters of the readiness guard must be read before planning."""
        upgrade = self.upgrade
        if not history.ADMISSION_POLICIES.applies_to(self.server):
            return False
        starting = upgrade.spec if not upgrade.finished or upgrade.retry_requested else None
        if starting is not None and probe_delay.is_guarded(starting.verify, KubeletVersion.parse(starting.version)):
            return True
        own = (self.own_task(name) for name in self.in_flight)
        return any(task is not None and task.spec.guard.wanted for task in own)

    def own_task(self, name: NodeName) -> Task | None:
        """Return the node's task if it belongs to this rollout and to this instance of the Node, else None."""
        task, node = self.tasks.get(name), self.nodes.get(name)
        if task is None or task.spec.upgrade_ref.uid != self.upgrade.uid:
            return None
        return task if node is None or task.spec.node_uid == node.uid else None

    def is_missing(self, name: NodeName) -> bool:
        """Report whether a node in flight has no Node object and may have a run without a verdict.

        If its task is gone too, only the slot shows the run.
        """
        if name in self.nodes or name in self.unreadable:
            return False
        if (task := self.own_task(name)) is None:
            spec = self.upgrade.spec
            return spec is None or spec.action is not RolloutAction.PLAN
        begun = task.open and task.spec.action is not TaskAction.PRECHECK and task.kind is RunKind.UPGRADE
        return begun and not task.untouched

    def claim_of(self, name: NodeName) -> Task | None:
        """Return the task by which the rollout holds the node, or None; a released task holds nothing."""
        task = self.own_task(name)
        return None if task is None or task.released else task

    def record_of(self, name: NodeName) -> NodeFailure | None:
        """Return the failure of this very Node that only the status records; None if there is none."""
        if (node := self.nodes.get(name)) is None or self.own_task(name) is not None:
            return None
        own = (each for each in self.upgrade.status.failures if each.node == name and each.outcome is not None)
        return next((each for each in own if each.uid == stored_uid(node.uid)), None)

    def setback_of(self, action: NodeAction) -> Setback | None:
        """Return the setback of this action for its node, or None."""
        return self.setbacks.get((getattr(action, "node", NodeName("")), type(action)))

    def is_held_back(self, action: NodeAction, now: datetime) -> bool:
        """Report whether an action failed for its node and is not due for a retry."""
        setback = self.setback_of(action)
        return setback is not None and now < setback.again
