"""The status of a NodeUpgradeTask: what the node side says about a run."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TaskPhase(StrEnum):
    """What is true of the node's run."""

    PENDING = "Pending"
    STAGING = "Staging"
    PRECHECKING = "Prechecking"
    STAGED = "Staged"
    """Everything is ready and proved; before it stops the kubelet the node side waits for the readiness guard."""
    PRECHECKED = "Prechecked"
    """Asked to look only: nothing objects to an upgrade; ``preview`` says what it would do."""
    REFUSED = "Refused"
    """Preflight said no; the node is untouched."""
    RUNNING = "Running"
    """The executor on the host has taken over."""
    VERIFYING = "Verifying"
    SUCCEEDED = "Succeeded"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"
    FAILED = "Failed"
    """Given up before anything was touched, for a technical reason such as a failed download."""

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


STOP_KUBELET, START_KUBELET, VERIFY = "stop-kubelet", "start-kubelet", "verify"
"""Names of the steps, among those of ``domain.node.journal.Step``, from which the control plane concludes something."""


class StepResult(StrEnum):
    """What the journal truthfully knows of a step."""

    DOING = "Doing"
    DONE = "Done"
    FAILED = "Failed"
    UNDOING = "Undoing"
    UNDONE = "Undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatus:
    """One step of the run, as the journal tells it (detail at most 128 characters)."""

    name: str
    result: StepResult
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletBinary:
    """A kubelet binary: version, SHA-256 and absolute path."""

    version: str | None = None
    sha256: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStatus:
    """The kubelet before and after, and the seconds in between."""

    before: KubeletBinary | None = None
    after: KubeletBinary | None = None
    down_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStatus:
    """The container runtime, as CRI names it."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCounts:
    """What became of the containers; ``restarted_list`` holds at most 20 of ``namespace/pod/container``.

    Attributes:
        unknown: of which nobody can say, because the runtime did not answer when the run was summed up.
        readiness_flaps: at most 20 of ``namespace/pod`` that were seen to become unready although their containers ran
            on.
    """

    baseline: int = 0
    rewritten: int = 0
    unchanged: int = 0
    restarted: int = 0
    unknown: int = 0
    restarted_list: tuple[str, ...] = ()
    ended_list: tuple[str, ...] = ()
    readiness_flaps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Something that forbids the upgrade or, if it is a ``warning``, only deserves attention."""

    reason: str
    pod: str = ""
    detail: str = ""
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartForecast:
    """A container that a plain kubelet swap would restart, and why (at most 256 characters)."""

    container: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an upgrade would do on this node; nothing has been touched.

    Attributes:
        rewritten: containers whose stored hash would be rewritten.
        unchanged: containers whose stored hash is right for both versions.
        would_restart: containers that a plain kubelet swap would restart.
        would_restart_list: at most 20 of them.
        static_pods: static pods whose manifest would be pinned.
        removed_flags: kubelet flags that would be left out.
    """

    rewritten: int = 0
    unchanged: int = 0
    would_restart: int = 0
    would_restart_list: tuple[RestartForecast, ...] = ()
    static_pods: int = 0
    removed_flags: tuple[str, ...] = ()


class GuardState(StrEnum):
    """What the node side knows of the readiness guard."""

    ASKED = "Asked"
    IN_FORCE = "InForce"
    """Seen: a dry run by the node's own kubelet was denied, right before that was stopped."""
    NOT_IN_FORCE = "NotInForce"
    """The kubelet was exchanged without it; ``detail`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardReport:
    """What the node side says of the readiness guard.

    Attributes:
        state: ``None`` as long as it was not asked for.
        ask: a token, new for every request; the control plane's answer names it.
        exposure_seconds: how long after its start the new kubelet may need to have probed every pod.
        detail: why it is not in force, and why it was not observed which pods were reported unready, if so (at most 256
            characters).
    """

    state: GuardState | None = None
    ask: str = ""
    exposure_seconds: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """What the node side says about the run named by ``run_id``.

    Attributes:
        run_id: the run this is about; the control plane ignores any other.
        reason: one of ``nodeupgrade.api.reasons.Reason``; text, so that a newer agent's
            words can be shown.
        message: a sentence that says what to do, at most 512 characters.
        steps: at most 16.
        hazards: at most 20.
    """

    run_id: str = ""
    observed_generation: int = -1
    phase: TaskPhase = TaskPhase.PENDING
    reason: str = ""
    message: str = ""
    steps: tuple[StepStatus, ...] = ()
    kubelet: KubeletStatus = KubeletStatus()
    runtime: RuntimeStatus = RuntimeStatus()
    containers: ContainerCounts = ContainerCounts()
    guard: GuardReport = GuardReport()
    hazards: tuple[Hazard, ...] = ()
    preview: Preview | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def failed_step(self) -> str:
        """The step that a failed run came to: one that could not be undone, else the last of those that were undone.

        Each of these carries the cause. Empty if no step failed.
        """
        failed = [step.name for step in self.steps if step.result is StepResult.FAILED]
        undone = [step.name for step in self.steps if step.detail]
        return next(iter((*failed, *reversed(undone))), "")
