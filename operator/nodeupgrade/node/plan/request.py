"""The request for one attempt: the task's spec and the program that replaces the kubelet. A run is planned from it."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.values import BootIdentity, Digest, RunId
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.plan import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The program that replaces the kubelet."""

    program: PurePosixPath  # its path on the node
    digest: Digest | None  # digest of its content; None if it vanished
    takes: int = 0  # bytes that staging it next to the old program will take; 0 once it is staged


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One attempt to do what a task asks for."""

    spec: TaskSpec
    run_id: RunId  # id of this attempt
    namespace: str  # the operator's own, in which the pods of its runs are
    replacement: Replacement | Finding  # the new program, or why it is not available
    staged: str  # path next to the old program from which the new one is swapped in
    backup: str  # path next to the old program where the old one is kept
    exposure: float = 0.0  # seconds to wait until a new kubelet has probed every pod of the node
    boot: BootIdentity | None = None  # the present boot of the node
    files: tuple[NewFile, ...] = ()  # the files that are to be there together with the new program

    @property
    def settle(self) -> float:
        """Return for how many seconds the run watches the containers once the new kubelet runs."""
        return max(self.spec.verify.settle.total_seconds(), self.exposure)

    @property
    def limits(self) -> Limits:
        """Return the run's timeouts."""
        verify = self.spec.verify
        return Limits(
            kubelet_down=verify.kubelet_down_budget.total_seconds(),
            settle=verify.settle.total_seconds(),
            node_status=verify.node_ready_timeout.total_seconds(),
            shield_hold=verify.shield_hold.total_seconds(),
        )
