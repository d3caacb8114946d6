"""A candidate: one node whose upgrade is considered, whether it can be claimed, and the task that claims it."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from nodeupgrade.api.limits import PAST_RUNS_LISTED
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind, new_run_id
from nodeupgrade.api.task.spec import ArtifactKind, PastRun, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.artifact import Artifact
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.fleet.snapshot import FleetSnapshot
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


def task_spec(candidate: Candidate, *, wave: str, order: int) -> TaskSpec:
    """Return the spec of the task by which a rollout claims a node, resolved for this node.

    Raises:
        KeyError: There is no artifact for the node's platform.
    """
    upgrade, spec, node, held = candidate.fleet.upgrade, candidate.spec, candidate.node, candidate.task
    return TaskSpec(
        node_name=node.name,
        node_uid=node.uid,
        upgrade_ref=UpgradeRef(name=upgrade.name, uid=upgrade.uid, generation=upgrade.generation),
        run_id=new_run_id(upgrade.uid, candidate.now),
        from_version=node.kubelet_version,
        to_version=spec.version,
        artifact=resolve_artifact(spec.artifact, node.platform),
        files=spec.files,
        wave=wave,
        order=order,
        allow_downgrade=spec.allow_downgrade,
        hash_mode=spec.hash.mode,
        hash_also_accepted=spec.hash.also_accepted,
        kubelet=spec.kubelet,
        preflight=spec.preflight,
        verify=spec.verify,
        history=() if held is None else past_runs(held),
    )


def resolve_artifact(artifact: Artifact, platform: str) -> TaskArtifact:
    """Return the artifact for a platform.

    Raises:
        KeyError: It does not serve the platform.
    """
    if (image := artifact.image) is not None:
        return TaskArtifact(
            kind=ArtifactKind.IMAGE, ref=image.ref, path=image.path, sha256=image.sha256, pull_secret=image.pull_secret
        )
    if download := (artifact.platforms or {}).get(platform):
        return TaskArtifact(kind=ArtifactKind.URL, url=download.url, sha256=download.sha256)
    file = (artifact.pre_staged or {})[platform]
    return TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=file.path, sha256=file.sha256)


def past_runs(held: Task) -> tuple[PastRun, ...]:
    """Return the history including the last run, at most PAST_RUNS_LISTED entries; prechecks do not count."""
    verdict = held.verdict
    if verdict is None or held.kind is RunKind.PRECHECK:
        return held.spec.history
    past = PastRun(
        upgrade=held.spec.upgrade_ref.name,
        from_version=held.spec.from_version,
        to_version=held.spec.to_version,
        result=verdict.outcome,
        time=verdict.decided_at,
    )
    return (*held.spec.history, past)[-PAST_RUNS_LISTED:]
