"""The status of a NodeUpgradeTask: what the node side reports about a run."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from nodeupgrade.api import limits
from nodeupgrade.api.field import Count, Field, declared
from nodeupgrade.api.node_files import MOST_FILES
from nodeupgrade.api.task.spec import KUBELET_VERSION, RUN, ContainerPath, ContainerPaths, Restarted


class TaskPhase(StrEnum):
    """The phase of the node's run."""

    PENDING = "Pending"
    STAGING = "Staging"
    PRECHECKING = "Prechecking"
    STAGED = "Staged"
    """Everything is staged and proved; the agent waits for the readiness guard."""
    PRECHECKED = "Prechecked"
    """A precheck found nothing against an upgrade; ``preview`` says what an upgrade would do."""
    REFUSED = "Refused"
    """Preflight refused the node; it is untouched."""
    RUNNING = "Running"
    """The executor on the host has taken over."""
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"
    FAILED = "Failed"
    """Given up before anything was touched, for a technical reason such as a failed download."""
    RELEASED = "Released"
    """Its NodeUpgrade is gone, and the run never began; the task stays for the history of other NodeUpgrades."""

    @property
    def terminal(self) -> bool:
        """Whether the run is over."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        TaskPhase.PRECHECKED,
        TaskPhase.REFUSED,
        TaskPhase.SUCCEEDED,
        TaskPhase.ROLLED_BACK,
        TaskPhase.ROLLBACK_FAILED,
        TaskPhase.FAILED,
    }
)


class StepResult(StrEnum):
    """The state of a step according to the journal."""

    DOING = "Doing"
    DONE = "Done"
    FAILED = "Failed"
    UNDOING = "Undoing"
    UNDONE = "Undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """One step of the run, as recorded in the journal."""

    name: Annotated[str, "Name of the step.", Field(max_length=64)]
    result: Annotated[StepResult, "What became of it."]
    started_at: Annotated[datetime | None, "When it began."] = None
    finished_at: Annotated[datetime | None, "When it ended."] = None
    detail: Annotated[str | None, "What it found, or why it failed.", Field(max_length=limits.STEP_DETAIL_LENGTH)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletBinary:
    """A kubelet binary."""

    version: Annotated[str | None, "Version of the kubelet.", KUBELET_VERSION] = None
    sha256: Annotated[str | None, "SHA-256 of the binary.", Field(max_length=64)] = None
    path: Annotated[str | None, "Path on the node.", Field(max_length=limits.PATH_LENGTH)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that is replaced together with the kubelet."""

    path: Annotated[str, "Path of the file on the node.", Field(max_length=limits.PATH_LENGTH)]
    before: Annotated[str | None, "SHA-256 of the old file. Unset if there was none.", Field(max_length=64)] = None
    after: Annotated[str | None, "SHA-256 of the new file.", Field(max_length=64)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenAttempts:
    """When the old kubelet ran without interference, after an attempt that was turned back."""

    since: Annotated[datetime, "When the attempt had ended."]
    until: Annotated[datetime | None, "When the next one stopped the kubelet. Unset if none did."] = None


class ManifestUid(StrEnum):
    """What a run does about ``metadata.uid`` in the manifest of a static pod."""

    ADDED = "Added"
    REMOVED = "Removed"
    """An earlier run added it, and the kubelet now computes the same UID."""
    KEPT = "Kept"
    """An earlier run added it, and it is still needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPodManifest:
    """The manifest of a static pod that sets, or has set, the UID of the running pod."""

    path: Annotated[str, "Path of the manifest on the node.", Field(max_length=limits.PATH_LENGTH)]
    uid: Annotated[
        ManifestUid,
        "What happens to metadata.uid, which keeps the pod running. Added, Kept: the manifest sets it, and with "
        "kubelets from 1.31 on most edits have no effect until it is removed together with the next edit. Removed: "
        "the kubelet no longer needs it.",
    ]


MANIFESTS = Field(max_items=limits.CONTAINERS_LISTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPackage:
    """The package that the kubelet binary belongs to, and from which it differs after the upgrade."""

    manager: Annotated[str, "The package manager: dpkg or rpm.", Field(max_length=limits.LABEL_LENGTH)]
    name: Annotated[str, "Name of the package that owns the kubelet.", Field(max_length=limits.LABEL_LENGTH)]
    version: Annotated[
        str, "Version of the package. Empty if it could not be read.", Field(max_length=limits.LABEL_LENGTH)
    ] = ""
    held: Annotated[bool, "Whether the package is held, so that the package manager does not upgrade it."] = False
    held_by_us: Annotated[bool, "Whether this run held the package."] = False


CHANGED_FILES = Field(max_items=MOST_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStatus:
    """The kubelet before and after the run, and how long the node was without one."""

    before: KubeletBinary | None = None
    after: KubeletBinary | None = None
    down_seconds: Annotated[float | None, "How long no kubelet ran, in seconds."] = None
    files: Annotated[tuple[FileChange, ...], CHANGED_FILES, "Files that were replaced."] = ()
    package: KubeletPackage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """Name and version of the container runtime, as reported by the CRI."""

    name: Annotated[str, "Name of the container runtime.", Field(max_length=limits.LABEL_LENGTH)] = ""
    version: Annotated[str, "Version of the container runtime.", Field(max_length=limits.LABEL_LENGTH)] = ""


class OwnerChange(StrEnum):
    """What the owner of a pod changed during a run."""

    IMAGE_CHANGED = "ImageChanged"
    RESIZED = "Resized"
    EPHEMERAL_CONTAINER_ADDED = "EphemeralContainerAdded"
    POD_DELETED = "PodDeleted"
    MANIFEST_CHANGED = "ManifestChanged"
    MANIFEST_REMOVED = "ManifestRemoved"
    MANIFEST_ADDED = "ManifestAdded"

    @property
    def of_manifest(self) -> bool:
        """Whether it is a change of a static pod's manifest, which the API server does not show."""
        return self in {OwnerChange.MANIFEST_CHANGED, OwnerChange.MANIFEST_REMOVED}

    @property
    def of_pod(self) -> bool:
        """Whether a kubelet ends the whole pod for it."""
        return self.of_manifest or self is OwnerChange.POD_DELETED

    @property
    def words(self) -> str:
        """Return it as people say it, such as ``image changed``."""
        return re.sub(r"(?<!^)([A-Z])", r" \1", self.value).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChange:
    """A change that an owner made during the run. What a kubelet does because of it is no restart by the upgrade."""

    name: Annotated[ContainerPath, "The container, as namespace/pod/container; or the pod, as namespace/pod."]
    change: Annotated[OwnerChange, "What was changed."]

    def __str__(self) -> str:
        return f"{self.name} ({self.change.words})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCounts:
    """Containers of the node, by what happened to them."""

    baseline: Annotated[Count, "Number of containers that ran before."] = 0
    rewritten: Annotated[Count, "Number of containers whose stored hash was rewritten."] = 0
    unchanged: Annotated[Count, "Number of containers whose stored hash was already right."] = 0
    restarted: Annotated[Count, "Number of containers that were restarted. Should be 0."] = 0
    unknown: Annotated[
        Count, "Number of containers whose outcome is unknown, because the runtime did not answer at the end."
    ] = 0
    recreated: Annotated[
        Count, "Number of containers of static pods that were replaced because of kubelet.staticPods: Recreate."
    ] = 0
    restarted_list: Restarted = ()
    recreated_list: Annotated[
        ContainerPaths, "The first few containers that were replaced because of kubelet.staticPods: Recreate."
    ] = ()
    ended: Annotated[
        Count,
        "Number of containers that ended during the settle period for reasons of their own or with their pod.",
    ] = 0
    ended_list: Annotated[
        ContainerPaths,
        "The first few containers that ended.",
    ] = ()
    owner_changes: Annotated[
        tuple[OwnedChange, ...],
        Field(max_items=limits.CONTAINERS_LISTED),
        "The first few changes that owners made during the run, by the API or by a manifest of a static pod.",
    ] = ()
    readiness_flaps: Annotated[
        ContainerPaths, "Pods, as namespace/name, that were reported unready although their containers kept running."
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOwner:
    """The owner of pods of the node, and the number of these pods that a hazard is about."""

    name: Annotated[ContainerPath, "The owner, such as Deployment namespace/name, static pod …, or bare pod …."]
    pods: Annotated[Count, "How many of its pods are concerned."] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedHazard:
    """A finding that prevents the upgrade, or a warning.

    Pods with the same finding and remedy are one hazard; pod and detail are of the first.
    """

    reason: Annotated[str, "What was found, as one CamelCase word.", Field(max_length=128)]
    check: Annotated[
        str, "Name of the check that found it (see docs/generated/preflight.md).", Field(max_length=limits.CHECK_LENGTH)
    ] = ""
    pod: Annotated[ContainerPath, "The first pod or container concerned."] = ""
    detail: Annotated[str, "What was found.", Field(max_length=limits.MESSAGE_LENGTH)] = ""
    pods: Annotated[Count, "Number of pods concerned. 0 if it concerns the node."] = 0
    others: Annotated[
        tuple[ContainerPath, ...],
        "The next few pods or containers concerned.",
        Field(max_items=limits.LISTED_PER_HAZARD),
    ] = ()
    owners: Annotated[
        tuple[PodOwner, ...], "The first few owners of these pods.", Field(max_items=limits.LISTED_PER_HAZARD)
    ] = ()
    warning: Annotated[bool, "The finding is only a warning."] = False
    accepted: Annotated[bool, "The finding would refuse the node, but spec.preflight.accept lists its check."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartForecast:
    """A container that a plain kubelet swap would restart, and why."""

    container: Annotated[ContainerPath, "The container, as namespace/pod/container."]
    why: Annotated[str, "Why the container would restart.", Field(max_length=limits.FORECAST_LENGTH)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an upgrade would do on this node. Nothing was touched."""

    rewritten: Annotated[Count, "Number of containers whose stored hash would be rewritten."] = 0
    unchanged: Annotated[Count, "Number of containers whose stored hash is already right."] = 0
    would_restart: Annotated[Count, "Number of containers that a plain kubelet swap would restart."] = 0
    would_restart_list: Annotated[
        tuple[RestartForecast, ...], "The first few of these containers.", Field(max_items=limits.CONTAINERS_LISTED)
    ] = ()
    static_pods: Annotated[Count, "Static pods whose UID would be pinned in their manifest."] = 0
    removed_flags: Annotated[
        tuple[Annotated[str, Field(max_length=128)], ...], "Kubelet flags that would be removed.", Field(max_items=64)
    ] = ()
    added_flags: Annotated[
        tuple[Annotated[str, Field(max_length=128)], ...], "Kubelet flags that would be added.", Field(max_items=64)
    ] = ()
    files: Annotated[tuple[FileChange, ...], CHANGED_FILES, "Files that would be replaced."] = ()
    manifests: Annotated[
        tuple[StaticPodManifest, ...], MANIFESTS, "Static pod manifests that would set the UID of their pod."
    ] = ()
    recreated_pods: Annotated[
        ContainerPaths, "Static pods that the new kubelet would replace, because of kubelet.staticPods: Recreate."
    ] = ()


UNKNOWN_KUBELET = "unknown"
"""Stands for the kubelet of a hash that no known kubelet computes."""

_SERIES = re.compile(r"1\.[0-9]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashCensus:
    """Running containers by the kubelet that computes the hash stored with them."""

    as_of: Annotated[datetime | None, "When they were counted."] = None
    kubelets: Annotated[
        Mapping[str, Count],
        "Number of containers by minor version, such as 1.30, or unknown if no known kubelet computes their hash. A "
        "hash that several kubelets compute counts for the running one, otherwise for the one nearest to it.",
        Field(max_properties=64),
    ] = field(default_factory=dict)

    @property
    def counted(self) -> Counter[str]:
        """The numbers; any key that is not a minor version counts as unknown."""
        found = Counter[str]()
        for kubelet, number in self.kubelets.items():
            found[kubelet if _SERIES.fullmatch(kubelet) else UNKNOWN_KUBELET] += number
        return found


class GuardState(StrEnum):
    """The state of the readiness guard as the node side knows it."""

    ASKED = "Asked"
    IN_FORCE = "InForce"
    """Verified: a dry run with the kubelet's own credentials was denied, right before the kubelet was stopped."""
    NOT_IN_FORCE = "NotInForce"
    """The kubelet was swapped without it; ``detail`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """The agent's request for the readiness guard."""

    state: Annotated[GuardState | None, "State of the readiness guard."] = None  # None until it is requested
    ask: Annotated[str, "Token of the request.", Field(max_length=64)] = ""
    exposure_seconds: Annotated[Count, "How long the new kubelet may need to probe every pod, in seconds."] = 0
    detail: Annotated[
        str,
        "Why the guard is not in force, or why flaps were not observed.",
        Field(max_length=limits.GUARD_DETAIL_LENGTH),
    ] = ""


class ShieldState(StrEnum):
    """Whether the shield protected the containers of a run."""

    RAISED = "Raised"
    """Requests to end containers that ran before were, or are, refused during the swap."""
    UNAVAILABLE = "Unavailable"
    """The run went without it; ``detail`` says why."""
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShieldReport:
    """Whether the shield prevented the runtime from ending containers that ran before."""

    state: Annotated[ShieldState | None, "State of the shield."] = None  # None until it is raised, if it is to be
    detail: Annotated[str, "Why the shield could not be raised.", Field(max_length=limits.MESSAGE_LENGTH)] = ""


@declared(Field(default={"observedGeneration": -1, "phase": TaskPhase.PENDING.value}))
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The node's report about the run named by runID. The control plane ignores any other."""

    run_id: Annotated[str, RUN] = ""
    observed_generation: Annotated[
        int, "Generation of the spec that this was derived from.", Field(defaulted=True)
    ] = -1
    phase: Annotated[TaskPhase, "Where the run stands."] = TaskPhase.PENDING
    # one of ``nodeupgrade.api.reasons.Reason``; as text, so that a newer agent's reasons can be shown
    reason: Annotated[str, "Why, as one CamelCase word.", Field(max_length=128)] = ""
    message: Annotated[str, "Details of the reason, and what to do.", Field(max_length=limits.MESSAGE_LENGTH)] = ""
    steps: Annotated[tuple[StepStatus, ...], "Steps of the run, in the order of their start.", Field(max_items=32)] = ()
    kubelet: KubeletStatus = KubeletStatus()
    runtime: RuntimeStatus = RuntimeStatus()
    containers: ContainerCounts = ContainerCounts()
    hashes: HashCensus | None = None
    manifests: Annotated[
        tuple[StaticPodManifest, ...], MANIFESTS, "Static pod manifests that set the UID of their pod."
    ] = ()
    guard: GuardReport = GuardReport()
    shield: ShieldReport = ShieldReport()
    hazards: Annotated[
        tuple[ReportedHazard, ...],
        "Findings that refuse the node, and warnings.",
        Field(max_items=limits.CONTAINERS_LISTED),
    ] = ()
    preview: Preview | None = None
    started_at: Annotated[datetime | None, "When the run began."] = None
    finished_at: Annotated[datetime | None, "When the run ended."] = None
    between_attempts: Annotated[
        tuple[BetweenAttempts, ...],
        "When the old kubelet ran between attempts at the run; what ended then is not the run's doing.",
        Field(max_items=4),
    ] = ()

    @property
    def failed_step(self) -> str:
        """The step that could not be undone, else the last undone one, which has the cause; empty if none failed."""
        failed = [step.name for step in self.steps if step.result is StepResult.FAILED]
        undone = [step.name for step in self.steps if step.detail]
        return next(iter((*failed, *reversed(undone))), "")
