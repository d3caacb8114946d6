"""A candidate: one node whose upgrade is considered, and the task that claims it."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import new_run_id
from nodeupgrade.api.task.spec import TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.cluster.descheduler_policy import Descheduler
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.holder import Holder, holder
from nodeupgrade.fleet.setbacks import Setbacks
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node whose upgrade is considered, and all that its checks depend on."""

    upgrade: Upgrade
    spec: UpgradeSpec
    node: NodeView
    now: datetime  # wall-clock time, UTC
    task: Task | None  # the node's task, whoever has claimed it
    problem: str | None  # why this version cannot parse the task
    pods: tuple[Pod, ...] | None  # the node's pods; None if they have not been read, or are not kept
    objection: Finding | None = None  # what its pods objected to when they were read last; None if to nothing
    holder: Holder | None  # which other rollout holds the node; None if none does
    setbacks: Setbacks  # writes that failed lately
    server: KubeletVersion  # version of the API server
    api_servers: tuple[KubeletVersion, ...]  # versions of the API servers that run as visible pods
    deschedulers: tuple[Descheduler, ...]  # those that may evict the pods of cordoned nodes
    guard_obstacle: str | None  # why nodes cannot be guarded; None if they can
    active_upgrades: frozenset[str]  # UIDs of all NodeUpgrades that have not ended

    @classmethod
    def of(cls, fleet: FleetSnapshot, spec: UpgradeSpec, node: NodeView, now: datetime) -> "Candidate":
        """Return a node of a fleet as a candidate."""
        return cls(
            upgrade=fleet.upgrade,
            spec=spec,
            node=node,
            now=now,
            task=fleet.tasks.get(node.name),
            problem=fleet.unreadable.get(node.name),
            pods=fleet.pods.get(node.name),
            objection=fleet.objections.get(node.name),
            holder=holder(fleet, node.name),
            setbacks=fleet.setbacks,
            server=fleet.server,
            api_servers=fleet.api_servers,
            deschedulers=fleet.deschedulers,
            guard_obstacle=fleet.guard_obstacle,
            active_upgrades=fleet.active_upgrades,
        )

    @property
    def target(self) -> KubeletVersion:
        """The target version."""
        return _version(self.spec.version)

    @property
    def current(self) -> KubeletVersion:
        """The version that the node runs; valid only after ``node_version_is_known`` has passed."""
        return _version(self.node.kubelet_version)

    @property
    def cordoned_by_others(self) -> bool:
        """Whether somebody else has cordoned the node: a person, another program or another rollout."""
        return self.node.unschedulable and self.node.cordoned_by != self.upgrade.uid

    @property
    def task_spec(self) -> TaskSpec:
        """The spec of the task by which the rollout claims the node, resolved for this node; without its wave.

        Raises:
            KeyError: There is no artifact for the node's platform.
        """
        upgrade, spec, node = self.upgrade, self.spec, self.node
        return TaskSpec(
            node_name=node.name,
            node_uid=node.uid,
            upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
            run_id=new_run_id(upgrade.uid, self.now),
            from_version=node.kubelet_version,
            to_version=spec.version,
            artifact=TaskArtifact.of(spec.artifact, node.platform),
            files=spec.files,
            allow_downgrade=spec.allow_downgrade,
            hash_mode=spec.hash.mode,
            hash_also_accepted=spec.hash.also_accepted,
            kubelet=spec.kubelet,
            preflight=spec.preflight,
            verify=spec.verify,
            history=() if self.task is None else self.task.past_runs(upgrade.status.last_handled_retry),
        )


@lru_cache(maxsize=256)
def _version(text: str) -> KubeletVersion:
    return KubeletVersion.parse(text)


def named(candidate: Candidate) -> str:
    """Return how messages name the node."""
    return f"node {candidate.node.name}"
