"""A candidate: one node whose upgrade is considered, whether it can be claimed, and the task that claims it."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from nodeupgrade.api.limits import LABEL_LENGTH, PAST_RUNS_LISTED, shorten
from nodeupgrade.api.printable import printable
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind, new_run_id
from nodeupgrade.api.task.spec import ArtifactKind, PastRun, TaskArtifact, TaskSpec, UpgradeRef
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
    if len(version) > LABEL_LENGTH:
        return f"{shorten(printable(version), LABEL_LENGTH)} is longer than {LABEL_LENGTH} characters"
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
        history=() if held is None else past_runs(held, upgrade.status.last_handled_retry),
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


def past_runs(held: Task, retry: str) -> tuple[PastRun, ...]:
    """Return the history including the last run, at most PAST_RUNS_LISTED entries; prechecks do not count.

    Args:
        retry: The token of the last retry that the rollout has carried out.
    """
    verdict, spec = held.verdict, held.spec
    if verdict is None or held.kind is RunKind.PRECHECK:
        return spec.history
    past = PastRun(
        upgrade=spec.upgrade_ref.name,
        upgrade_uid=spec.upgrade_ref.uid,
        node_uid=spec.node_uid,
        wave=spec.wave,
        retry=retry,
        from_version=spec.from_version,
        to_version=spec.to_version,
        result=verdict.outcome,
        reason=verdict.reason.value,
        restarted=verdict.restarted,
        time=verdict.decided_at,
    )
    return (*spec.history, past)[-PAST_RUNS_LISTED:]
