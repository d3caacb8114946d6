"""A candidate: one node whose upgrade is considered, and whether its task can be claimed."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pods import Pod
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet, era_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node of a fleet whose upgrade is considered."""

    fleet: FleetSnapshot
    spec: UpgradeSpec
    node: NodeView
    now: datetime  # wall-clock time, UTC

    @property
    def task(self) -> Task | None:
        """The node's task, whoever has claimed it."""
        return self.fleet.tasks.get(self.node.name)

    @property
    def pods(self) -> tuple[Pod, ...] | None:
        """The node's pods; None if they have not been read."""
        return self.fleet.pods.get(self.node.name)

    @property
    def target(self) -> KubeletVersion:
        """The target version."""
        return _version(self.spec.version)

    @property
    def current(self) -> KubeletVersion:
        """The version that the node runs; valid only after ``node_version_is_known`` has passed."""
        return _version(self.node.kubelet_version)


@lru_cache(maxsize=256)
def unsupported_version(version: str) -> str | None:
    """Return why container hashes of a kubelet version cannot be computed, or None if they can."""
    try:
        era_of(KubeletVersion.parse(version))
    except UnsupportedKubelet as error:
        return str(error)
    return None


@lru_cache(maxsize=256)
def _version(text: str) -> KubeletVersion:
    return KubeletVersion.parse(text)


def named(candidate: Candidate) -> str:
    """Return how messages name the node."""
    return f"node {candidate.node.name}"


def is_being_upgraded_for_others(candidate: Candidate) -> bool:
    """Report whether a run of another rollout may be changing the node."""
    task = task_of_others(candidate)
    return task is not None and task.spec.action in {TaskAction.UPGRADE, TaskAction.ABORT}


def task_of_others(candidate: Candidate) -> Task | None:
    """Return the task of this instance of the Node if it belongs to another rollout, else None."""
    task = candidate.task
    if (
        task is None
        or task.spec.node_uid != candidate.node.uid
        or task.spec.upgrade_ref.uid == candidate.fleet.upgrade.uid
    ):
        return None
    return task


def is_claimable(task: Task, active_upgrades: frozenset[str]) -> bool:
    """Report whether another rollout's task may be taken over: rollout and run are over, and nothing is broken."""
    if task.spec.upgrade_ref.uid in active_upgrades:
        return False
    if task.spec.action in {TaskAction.RELEASE, TaskAction.WAIT, TaskAction.PRECHECK}:
        return True
    return task.reported.phase.terminal and task.reported.phase is not TaskPhase.ROLLBACK_FAILED
