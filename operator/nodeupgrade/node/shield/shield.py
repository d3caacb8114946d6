"""The shield between a node's kubelet and its runtime. See docs/decisions/shield.md."""

from typing import Protocol

from nodeupgrade.node.shield.rules import RefusedCall, RuleRestart


class Shield(Protocol):
    """Raises and lowers the shield by exchanging the socket that a kubelet finds at the runtime's path.

    The service manager starts and stops the shield's process, a unit of its own. All methods are idempotent and raise
    StepFailed on failure.
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

    def restarted_by_rule(self) -> tuple[RuleRestart, ...]:
        """Return the containers that the kubelet was allowed to restart since the node's boot, by a rule of the pod."""

    def waiting(self) -> int:
        """Return how many calls wait for an excuse, which takes a few seconds at most."""

    def restarts(self) -> int:
        """Return how often the runtime took its path back by a restart while the shield was raised."""
