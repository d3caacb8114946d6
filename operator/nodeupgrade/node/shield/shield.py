"""The shield between a node's kubelet and its runtime. See docs/decisions/shield.md."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

LOCK, RESTARTS, REFUSED, WAITING = STATE_FILES = (
    PurePosixPath("/run/nodeupgrade-shield.lock"),
    PurePosixPath("/run/nodeupgrade-shield.restarts"),
    PurePosixPath("/run/nodeupgrade-shield.refused"),
    PurePosixPath("/run/nodeupgrade-shield.waiting"),
)
"""Files that do not outlive a boot: the lock of the socket exchange, the runtime's restarts under the shield, the
refused calls, the number of calls that wait, and the restarts by a rule of a pod.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A call that the shield refused."""

    at: str  # wall-clock time, RFC 3339
    monotonic: float  # when, in seconds of AwakeTime, so that it can be compared with the start of a unit
    method: str  # the CRI's name of it
    instance: str  # id of the container or sandbox
    label: str
    wanted: str
    caller: str = ""  # who called, such as ``crictl (process 4711)``; empty for the kubelet

    def __str__(self) -> str:
        return f"{self.wanted} {self.label}"


class Shield(Protocol):
    """Raises and lowers the shield by exchanging the socket that a kubelet finds at the runtime's path.

    The service manager starts and stops the shield's process. All methods are idempotent and may raise StepFailed.
    """

    def ready(self) -> bool:
        """Report whether the shield's process accepts connections, raised or not."""

    def raised(self) -> bool:
        """Report whether a kubelet that connects now reaches the shield."""

    def stands_by(self) -> bool:
        """Report whether it has left the runtime's path, since the runtime has ended, until a runtime starts.

        Meanwhile a kubelet can connect to nothing.
        """

    def raise_up(self) -> None:
        """Put the shield's socket at the runtime's path, without a moment in which no socket is there.

        Raises:
            StepFailed: the shield's process or the runtime does not accept connections.
        """

    def lower(self) -> None:
        """Put the runtime's own socket back, unless the runtime has done so itself; works without the process too."""

    def clear(self) -> None:
        """Lower the shield and remove its own socket, which a killed process leaves behind."""

    def refused(self) -> tuple[RefusedCall, ...]:
        """Return the calls that were refused since the node's boot, oldest first."""

    def waiting(self) -> int:
        """Return how many calls wait for an excuse, which takes a few seconds at most."""

    def restarts(self) -> int:
        """Return how often the runtime took its path back by a restart while the shield was raised."""
