"""The spec of a NodeUpgradeTask: the control plane's request for one node, and its final verdict."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, TypeAlias

from nodeupgrade.api import limits
from nodeupgrade.api.field import RESOLVED, Count, Field, NameOfNode, Rule, declared, immutable
from nodeupgrade.api.node_files import MOST_FILES, NodeFile
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import (
    MOST_ALSO_ACCEPTED,
    HashMode,
    KubeletMinor,
    KubeletSettings,
    PreflightSettings,
    VerifySettings,
)
from nodeupgrade.api.upgrade.artifact import Artifact
from nodeupgrade.api.upgrade.hooks import MOST_HOOKS
from nodeupgrade.api.values import RunId, Verdict
from nodeupgrade.kubelethash import KubeletVersion

KUBELET_VERSION = Field(max_length=limits.LABEL_LENGTH)
RUN = Field(
    "ID of one attempt to upgrade this node. The status is valid only for the run that it names.", max_length=64
)
ContainerPath: TypeAlias = Annotated[str, Field(max_length=limits.CONTAINER_LENGTH)]
"""A container as namespace/pod/container, or a pod as namespace/name."""
ContainerPaths: TypeAlias = Annotated[tuple[ContainerPath, ...], Field(max_items=limits.CONTAINERS_LISTED)]
Restarted: TypeAlias = Annotated[ContainerPaths, "Containers that were restarted, as namespace/pod/container."]


class TaskAction(StrEnum):
    """What the control plane requests from the node side."""

    WAIT = "Wait"
    """Do nothing yet: the node is claimed and waits for its turn."""
    PRECHECK = "Precheck"
    """Check the node, prove its hashes and report what an upgrade would do; touch nothing."""
    UPGRADE = "Upgrade"
    """Upgrade the node; the only action that allows changes."""
    ABORT = "Abort"
    """Stop and roll back unless the run is committed."""
    RELEASE = "Release"
    """The run is over and counted; another NodeUpgrade may claim the task."""


class ArtifactKind(StrEnum):
    """Where the kubelet binary comes from."""

    IMAGE = "Image"
    URL = "URL"
    PRE_STAGED = "PreStaged"


_AT_REST = (TaskAction.WAIT, TaskAction.RELEASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRef:
    """The NodeUpgrade that the task belongs to."""

    name: Annotated[str, "Name of the NodeUpgrade.", Field(max_length=limits.NAME_LENGTH)]
    uid: Annotated[str, "UID of the NodeUpgrade.", Field(max_length=64)]
    generation: Annotated[int, "Generation of the NodeUpgrade's spec that this was derived from."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskArtifact:
    """The kubelet binary for the node's platform, fully resolved."""

    kind: Annotated[ArtifactKind, "Kind of the source, which determines the other fields that are set."]
    ref: Annotated[
        str | None, "Image that contains the kubelet, pinned by its digest.", Field(max_length=limits.IMAGE_LENGTH)
    ] = None  # image reference pinned by digest (Image)
    # absolute path inside the image (Image) or on the node (PreStaged)
    path: Annotated[
        str | None, "Path of the kubelet in the image, or on the node.", Field(max_length=limits.PATH_LENGTH)
    ] = None
    url: Annotated[str | None, "URL from which the kubelet is downloaded.", Field(max_length=limits.URL_LENGTH)] = (
        None  # where to download from (URL)
    )
    # 64 lower-case hexadecimal digits (URL, PreStaged; Image if it is required there)
    sha256: Annotated[str | None, "SHA-256 of the kubelet.", Field(max_length=64, pattern="[0-9a-f]{64}")] = None
    # Secret in the operator's namespace to pull the image with (Image)
    pull_secret: Annotated[
        str | None, "Name of the Secret with which the image is pulled.", Field(max_length=limits.NAME_LENGTH)
    ] = None

    @classmethod
    def of(cls, artifact: Artifact, platform: str) -> "TaskArtifact":
        """Return the artifact for a platform.

        Raises:
            KeyError: It does not serve the platform.
        """
        if (image := artifact.image) is not None:
            secret = image.pull_secret
            return cls(kind=ArtifactKind.IMAGE, ref=image.ref, path=image.path, sha256=image.sha256, pull_secret=secret)
        if download := (artifact.platforms or {}).get(platform):
            return cls(kind=ArtifactKind.URL, url=download.url, sha256=download.sha256)
        file = (artifact.pre_staged or {})[platform]
        return cls(kind=ArtifactKind.PRE_STAGED, path=file.path, sha256=file.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonRecord:
    """Whether and by whom the node was cordoned."""

    was_unschedulable: Annotated[bool, "Whether the node was cordoned before the run."] = False
    by_us: Annotated[bool, "Whether the node was cordoned for the run."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """An earlier run on this node, kept when the task is claimed again."""

    upgrade: Annotated[str, "The NodeUpgrade that the task belonged to.", Field(max_length=limits.NAME_LENGTH)]
    upgrade_uid: Annotated[str, "UID of that NodeUpgrade.", Field(max_length=64)] = ""
    node_uid: Annotated[str, "UID that the Node had.", Field(max_length=64)] = ""
    wave: Annotated[str, "The wave that the node was upgraded in.", Field(max_length=limits.LABEL_LENGTH)] = ""
    retry: Annotated[
        str,
        "Token of the last retry that the NodeUpgrade had carried out. A failure of another Node of this name counts "
        "until the next one.",
        Field(max_length=limits.RETRY_TOKEN_LENGTH),
    ] = ""
    from_version: Annotated[str, "Version of the kubelet before the run.", KUBELET_VERSION]
    to_version: Annotated[str, "Version of the kubelet that the run was to bring.", KUBELET_VERSION]
    result: Annotated[Verdict, "The outcome of the run."]
    reason: Annotated[str, "Reason for the outcome.", Field(max_length=128)] = ""
    restarted: Annotated[Count, "Number of containers that were restarted."] = 0
    time: Annotated[datetime | None, "When the run ended."] = None


class HookPhase(StrEnum):
    """When a hook runs."""

    BEFORE = "Before"
    AFTER = "After"


class HookResult(StrEnum):
    """How a hook ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimedOut"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """A hook of this run: a Job that the control plane creates, and its result."""

    phase: Annotated[HookPhase, "Whether it runs before or after the node's run."]
    template: Annotated[str, "The CronJob that it is created from.", Field(max_length=limits.TEMPLATE_NAME_LENGTH)]
    timeout_seconds: Annotated[int, "How long the Job may take, in seconds.", Field(minimum=1)]
    result: Annotated[HookResult | None, "How it ended. Unset until then."] = None
    message: Annotated[str, "Why it failed, or is waited for.", Field(max_length=limits.HOOK_MESSAGE_LENGTH)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """Result of the control plane's own verification of the node after the run."""

    run_id: Annotated[RunId, RUN]
    outcome: Annotated[Verdict, "How the run counts."]
    reason: Annotated[Reason, "Why, as one CamelCase word.", Field(max_length=128, open=True)]
    message: Annotated[str, "Why, for people.", Field(max_length=limits.MESSAGE_LENGTH)] = ""
    restarted: Annotated[Count, "Number of containers that were restarted."] = 0
    restarted_list: Restarted = ()
    decided_at: Annotated[datetime | None, "When the control plane decided it."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardGrant:
    """The control plane's answer about the readiness guard."""

    # whether the node side must request the guard; in a precheck, whether it would have to
    wanted: Annotated[bool, "Whether the agent must request it before it stops the kubelet."] = False
    answers: Annotated[str, "Token of the request that this answers.", Field(max_length=64)] = ""
    # when the new kubelet must run, as written into the guard's parameters. From then on, each pod is guarded for as
    # long as its own probes need.
    kubelet_runs_by: Annotated[
        datetime | None, "Time by which the new kubelet must run. Unset in an answer if no guard is possible."
    ] = None


@declared(
    Rule(
        f"self.action in {[action.value for action in _AT_REST]} || self.runID.size() > 0",
        "an action other than Wait and Release needs a runID",
    )
)
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The control plane's request for the node, and its verdict. Times are UTC."""

    node_name: Annotated[NameOfNode, "Name of the node.", immutable("the object is the lock on its node")]
    node_uid: Annotated[str, "UID of the Node.", Field(max_length=64)]
    upgrade_ref: UpgradeRef
    run_id: Annotated[RunId, RUN]
    from_version: Annotated[str, "Version of the kubelet before the run.", KUBELET_VERSION]
    to_version: Annotated[str, "Version of the kubelet after the run.", KUBELET_VERSION]
    artifact: TaskArtifact
    files: Annotated[
        tuple[NodeFile, ...], "Files to replace together with the kubelet.", Field(max_items=MOST_FILES)
    ] = ()
    action: Annotated[TaskAction, "Action requested from the agent.", Field(defaulted=True)] = TaskAction.WAIT
    action_reason: Annotated[str, "Reason for the action Abort.", Field(max_length=128)] = ""
    action_message: Annotated[
        str, "Why the action is requested, for people.", Field(max_length=limits.MESSAGE_LENGTH)
    ] = ""
    wave: Annotated[str, "The wave that the node belongs to.", Field(max_length=limits.LABEL_LENGTH)] = ""
    order: Annotated[Count, "Position of the node in the rollout, counted from 0."] = 0
    retry: Annotated[str, "Token of the retry that reopened the task.", Field(max_length=limits.RETRY_TOKEN_LENGTH)] = (
        ""
    )
    resumes: Annotated[bool, "Whether an earlier task was lost while its run may have been in progress."] = False
    allow_downgrade: Annotated[bool, "Whether the node may be downgraded.", Field(defaulted=True)] = False
    hash_mode: Annotated[
        HashMode,
        "Whether stored hashes may be rewritten (Rewrite), or none may have to be (AssertUnchanged).",
        Field(defaulted=True),
    ] = HashMode.REWRITE
    hash_also_accepted: Annotated[
        tuple[KubeletMinor, ...],
        "Minor versions whose hashes the running kubelet accepts too.",
        Field(max_items=MOST_ALSO_ACCEPTED),
    ] = ()
    kubelet: Annotated[KubeletSettings, "How the kubelet is treated, as in the NodeUpgrade.", RESOLVED] = field(
        default_factory=KubeletSettings
    )
    preflight: Annotated[PreflightSettings, "Checks whose findings are accepted, as in the NodeUpgrade.", RESOLVED] = (
        field(default_factory=PreflightSettings)
    )
    verify: Annotated[VerifySettings, "What is verified, and for how long, as in the NodeUpgrade.", RESOLVED] = field(
        default_factory=VerifySettings
    )
    deadline: Annotated[datetime | None, "Time at which the run is aborted if it is not finished."] = None
    guard: GuardGrant = GuardGrant()
    cordon: CordonRecord = CordonRecord()
    hooks: Annotated[tuple[HookRun, ...], "Hooks of this run, in their order.", Field(max_items=2 * MOST_HOOKS)] = ()
    verdict: RunVerdict | None = None
    history: Annotated[tuple[PastRun, ...], "Earlier runs on this node.", Field(max_items=limits.PAST_RUNS_LISTED)] = ()

    @property
    def target(self) -> KubeletVersion:
        """The version to upgrade to.

        Raises:
            UnsupportedKubelet: It is not the version of a kubelet.
        """
        return KubeletVersion.parse(self.to_version)
