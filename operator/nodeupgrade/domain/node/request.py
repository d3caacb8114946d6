"""What is asked of a node: the task's spec, for one attempt, with the program that shall replace the kubelet.

For gathering, which looks at what it names, and for planning. It repeats nothing that the spec says.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.run_settings import FlagPolicy
from nodeupgrade.api.task.spec import TaskSpec
from nodeupgrade.api.values import BootIdentity, Digest, RunId
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.plan import Limits
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The program that shall replace the kubelet.

    Attributes:
        program: where the node finds it.
        digest: of its content; ``None`` when it vanished.
        takes: bytes that it has yet to take beside the old program; 0 once it is staged there.
    """

    program: PurePosixPath
    digest: Digest | None
    takes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One attempt at what a task asks for.

    Attributes:
        run_id: of this attempt.
        replacement: the new program, or why it cannot be had.
        staged: path beside the old program from which the new one is swapped in.
        backup: path beside the old program that keeps it.
        exposure: seconds until a fresh kubelet has probed every pod of the node.
    """

    spec: TaskSpec
    run_id: RunId
    replacement: Replacement | Finding
    staged: str
    backup: str
    exposure: float = 0.0
    boot: BootIdentity | None = None

    @property
    def target(self) -> KubeletVersion:
        """The version that is wanted."""
        return KubeletVersion.parse(self.spec.to_version)

    @property
    def promised(self) -> Digest | None:
        """The digest that the new program must have, if the artifact says so."""
        return Digest(self.spec.artifact.sha256) if self.spec.artifact.sha256 else None

    @property
    def strips_flags(self) -> bool:
        """Whether flags that the new program does not know are left out."""
        return self.spec.kubelet.flag_policy is FlagPolicy.STRIP

    @property
    def settle(self) -> float:
        """Seconds for which the run watches the containers once the new kubelet runs."""
        return max(self.spec.verify.settle.total_seconds(), self.exposure)

    @property
    def limits(self) -> Limits:
        """How long things may take."""
        verify = self.spec.verify
        return Limits(kubelet_down=verify.kubelet_down_budget.total_seconds(), settle=verify.settle.total_seconds())
