"""The input of the rollout planner, gathered at one moment."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from nodeupgrade.api.limits import stored_uid
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import began_at, kind_of
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import NodeFailure, Slot, UpgradeStatus, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, RunKind, Verdict
from nodeupgrade.cluster.agent_pods import AgentPodView
from nodeupgrade.cluster.descheduler_policy import Descheduler
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import FreeSlot, GuardParameters, NodeAction, Wait
from nodeupgrade.fleet.cluster_budget import ClusterBudget
from nodeupgrade.fleet.guard.requirement import obstacle
from nodeupgrade.fleet.health.checks import HealthReading
from nodeupgrade.fleet.hooks.hooks import HookJobs
from nodeupgrade.fleet.setbacks import LostAgents, Setback, Setbacks
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.sources.allowlist import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """What a snapshot shows of one node."""

    name: NodeName
    view: NodeView | None  # the Node; None if it does not exist
    task: Task | None  # its task, whoever has claimed it
    own: Task | None  # that task if it belongs to this rollout and to this instance of the Node
    record: NodeFailure | None  # the failure of this very Node that only the status records
    problem: str | None  # why this version cannot parse the Node or its task

    @property
    def claim(self) -> Task | None:
        """The task by which the rollout holds the node; a released task holds nothing."""
        return None if self.own is None or self.own.released else self.own


@dataclass(frozen=True, kw_only=True)
class FleetSnapshot:
    """One rollout and the part of the cluster that concerns it."""

    upgrade: Upgrade
    server: KubeletVersion  # version of the API server
    nodes: Mapping[NodeName, NodeView]
    tasks: Mapping[NodeName, Task] = field(default_factory=dict)
    # by node, only for those that ``planner.plan`` or ``flight.needs_pods`` requested
    pods: Mapping[NodeName, tuple[Pod, ...]] = field(default_factory=dict)
    # what the pods of nodes objected to when they were read last, not long ago
    objections: Mapping[NodeName, Finding] = field(default_factory=dict)
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
    deschedulers: tuple[Descheduler, ...] = ()  # those that may evict the pods of cordoned nodes
    # what reconciled nodes in flight wait for; at last, for their slots to be freed
    waiting: Mapping[NodeName, Wait | FreeSlot] = field(default_factory=dict)
    # nodes whose start was not answered, so that it may take effect any time later
    starts_unanswered: frozenset[NodeName] = frozenset()
    health: Mapping[str, HealthReading] = field(default_factory=dict)  # by name of the health check
    hook_jobs: HookJobs = field(default_factory=HookJobs)  # only those of the reconciled node
    epoch: str = ""  # the mark of this leader's term on objects; empty if there is no other writer
    cluster_budget: ClusterBudget = ClusterBudget()  # what all rollouts together may take
    retried: str | None = None  # the token of a retry that is taken as carried out
    allowed: Allowed | None = None  # what the operator's configuration allows; None if that is unknown

    @property
    def done(self) -> dict[NodeName, FreeSlot]:
        """Nodes in flight that no longer need their slots, with the actions that free them.

        One needs its slot if its task is open, as after a restored backup, or if it was given up and registered again.
        """
        busy = {name for name in self.waiting if (task := self.own_task(name)) is not None and task.open}
        freed = ((name, each) for name, each in self.waiting.items() if isinstance(each, FreeSlot) and name not in busy)
        return {name: action for name, action in freed if action.failure is None or name not in self.nodes}

    @property
    def names(self) -> set[NodeName]:
        """The names of all nodes of which anything is known."""
        return {*self.nodes, *self.tasks, *self.unreadable, *self.slots}

    @cached_property
    def slots(self) -> dict[NodeName, Slot]:
        """The slots of the nodes in flight, sorted by name; the ID of its run says what a slot was taken for.

        An open task of this rollout holds one even if the status, edited or restored from a backup, does not list it:
        the budget must hold all the same.
        """
        slots = {slot.node: self._as_run(slot) for slot in self.upgrade.status.in_flight}
        for name, task in self.tasks.items():
            if name not in slots and task.open and self.own_task(name) is not None:
                spec = task.spec
                uid, since = stored_uid(spec.node_uid), began_at(spec.run_id)
                slots[name] = Slot(node=name, uid=uid, wave=spec.wave, run=spec.run_id, since=since)
        return dict(sorted(slots.items()))

    def _as_run(self, slot: Slot) -> Slot:
        """Have a slot bear the run that goes on, if that is of another kind."""
        task = self.own_task(slot.node)
        if task is None or not task.open or task.kind is kind_of(slot.run):
            return slot
        return replace(slot, run=task.spec.run_id)

    @property
    def busy(self) -> Iterator[NodeName]:
        """The nodes in flight, of any rollout."""
        yield from self.slots
        yield from (name for name, task in self.tasks.items() if task.open)

    @cached_property
    def guard_obstacle(self) -> str | None:
        """Why nodes cannot be guarded; None if they can."""
        return obstacle(self.server, self.guard)

    @property
    def needs_guard(self) -> bool:
        """Whether the parameters of the readiness guard must be read before planning."""
        upgrade = self.upgrade
        if not history.ADMISSION_POLICIES.applies_to(self.server):
            return False
        starting = upgrade.spec if not upgrade.finished or upgrade.retry_requested else None
        if starting is not None and probe_delay.is_guarded(starting.verify, KubeletVersion.parse(starting.version)):
            return True
        return any((task := self.own_task(name)) is not None and task.spec.guard.wanted for name in self.slots)

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
            slot = self.slots.get(name)
            return slot is None or kind_of(slot.run) is not RunKind.PRECHECK
        begun = task.open and task.spec.action is not TaskAction.PRECHECK and task.kind is RunKind.UPGRADE
        return begun and not task.untouched

    def known(self, name: NodeName) -> KnownNode:
        """Return what is known of a node."""
        node, task, own, record = self.nodes.get(name), self.tasks.get(name), self.own_task(name), None
        if node is not None and own is None and (known := self.upgrade.status.failures):
            recorded = (each for each in known if each.node == name and each.outcome is not None)
            record = next((each for each in recorded if each.uid == stored_uid(node.uid)), None)
        return KnownNode(name=name, view=node, task=task, own=own, record=record, problem=self.unreadable.get(name))

    def setback_of(self, action: NodeAction) -> Setback | None:
        """Return the setback of this action for its node, or None."""
        return self.setbacks.get((getattr(action, "node", NodeName("")), type(action)))

    def not_held_back(self, actions: Iterable[NodeAction], now: datetime) -> tuple[NodeAction, ...]:
        """Return those of these actions that have not failed for their nodes, or are due for a retry."""
        known = ((action, self.setback_of(action)) for action in actions)
        return tuple(action for action, setback in known if setback is None or now >= setback.again)

    @property
    def own_tasks(self) -> tuple[Task, ...]:
        """The tasks of this rollout, whatever has become of their Nodes."""
        return tuple(task for task in self.tasks.values() if task.spec.upgrade_ref.uid == self.upgrade.uid)

    def without_slots(self, freed: Collection[FreeSlot]) -> "FleetSnapshot":
        """Return the snapshot as it will be once these slots are free, and what is on record of their runs."""
        names, status = {action.node for action in freed}, self.upgrade.status
        lost = tuple(action.failure for action in freed if action.failure is not None)
        slots = tuple(slot for name, slot in self.slots.items() if name not in names)
        judged = [(self.slots[each.node].wave or REMAINDER, each.judged) for each in freed]
        waves = tuple(
            _with_verdicts(each, [time for name, time in judged if name == each.name]) for each in status.waves
        )
        return self._with_status(replace(status, in_flight=slots, failures=(*lost, *status.failures), waves=waves))

    def after_retry(self) -> "FleetSnapshot":
        """Return the snapshot once a retry has cleared the failures that only the status records.

        A node that could not be rolled back is tried again once a person has uncordoned it.
        """
        ours = (node for node in self.nodes.values() if node.unschedulable and node.cordoned_by == self.upgrade.uid)
        broken, status = {stored_uid(node.uid) for node in ours}, self.upgrade.status
        left = tuple(
            each
            for each in status.failures
            if each.outcome is None or (each.outcome is Verdict.ROLLBACK_FAILED and each.uid in broken)
        )
        return replace(self._with_status(replace(status, failures=left)), retried=self.upgrade.retry)

    def _with_status(self, status: UpgradeStatus) -> "FleetSnapshot":
        return replace(self, upgrade=replace(self.upgrade, status=status))


def _with_verdicts(wave: WaveStatus, judged: Iterable[datetime | None]) -> WaveStatus:
    """Return the record of a wave whose nodes were judged at these times as well."""
    return replace(wave, last_verdict_at=max(filter(None, (wave.last_verdict_at, *judged)), default=None))
