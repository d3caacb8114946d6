"""The facts about one node from which the admission checks decide."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pods import Pod
from nodeupgrade.domain.rollout.backoff import Setbacks
from nodeupgrade.domain.rollout.guard import GuardParameters
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet, era_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One node and the facts that admission checks need."""

    upgrade: Upgrade
    spec: UpgradeSpec
    node: NodeView
    server: KubeletVersion
    now: datetime  # wall-clock time, UTC
    task: Task | None = None
    active_upgrades: frozenset[str] = frozenset()
    pods: tuple[Pod, ...] | None = None  # the node's pods; None if they have not been read
    unreadable: str = ""  # why the Node or its task cannot be parsed; empty if they can
    guard: GuardParameters | None = None
    setbacks: Setbacks = field(default_factory=dict)  # writes that failed, for this node and others
    # versions of the API servers that run as pods, as far as they can be seen
    api_servers: tuple[KubeletVersion, ...] = ()

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
    if task is None or task.spec.node_uid != candidate.node.uid or task.spec.upgrade_ref.uid == candidate.upgrade.uid:
        return None
    return task
