"""The Shield port on a node."""

from pathlib import Path

from nodeupgrade.adapters.shield.records import Refusals, RuleRestarts, WaitingCalls
from nodeupgrade.adapters.shield.socket import Exchange
from nodeupgrade.domain.node.shield import RefusedCall, RuleRestart

STATE = Path("/run")


class HostShield:
    """Implements ports.shield.Shield.

    Args:
        socket: path of the runtime's socket, as this process sees it.
        state: the node's ``/run``, as this process sees it.
    """

    def __init__(self, socket: Path, state: Path = STATE) -> None:
        self._exchange = Exchange(socket, state)
        self._refusals = Refusals(state)
        self._rule_restarts = RuleRestarts(state)
        self._waiting = WaitingCalls(state)

    def ready(self) -> bool:
        """Report whether the shield's process accepts connections."""
        return self._exchange.ready()

    def raised(self) -> bool:
        """Report whether the runtime's path leads to the shield."""
        return self._exchange.raised()

    def stands_by(self) -> bool:
        """Report whether it left the runtime's path to one that starts, and takes it again then."""
        return self._exchange.stands_by()

    def raise_up(self) -> None:
        """Put the shield's socket at the runtime's path.

        Raises:
            StepFailed: the shield's process or the runtime does not accept connections.
        """
        self._exchange.raise_up()

    def lower(self) -> None:
        """Put the runtime's own socket back.

        Raises:
            StepFailed: the runtime does not accept connections.
        """
        self._exchange.lower()

    def clear(self) -> None:
        """Lower the shield and remove its own socket.

        Raises:
            StepFailed: as for lower().
        """
        self._exchange.clear()

    def refused(self) -> tuple[RefusedCall, ...]:
        """Return the refused calls, oldest first."""
        return self._refusals.all()

    def restarted_by_rule(self) -> tuple[RuleRestart, ...]:
        """Return what rules of pods have had restarted, oldest first."""
        return self._rule_restarts.all()

    def waiting(self) -> int:
        """Return how many calls are held back; a process that ended holds none."""
        waiting = self._waiting.get()
        return waiting if waiting and self.ready() else 0

    def restarts(self) -> int:
        """Return how often the runtime took its path back while the shield was raised."""
        return self._exchange.restarts()
