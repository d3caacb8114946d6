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
        return self._exchange.ready()

    def raised(self) -> bool:
        return self._exchange.raised()

    def stands_by(self) -> bool:
        return self._exchange.stands_by()

    def raise_up(self) -> None:
        self._exchange.raise_up()

    def lower(self) -> None:
        self._exchange.lower()

    def clear(self) -> None:
        self._exchange.clear()

    def refused(self) -> tuple[RefusedCall, ...]:
        return self._refusals.all()

    def restarted_by_rule(self) -> tuple[RuleRestart, ...]:
        return self._rule_restarts.all()

    def waiting(self) -> int:
        waiting = self._waiting.get()
        return waiting if waiting and self.ready() else 0

    def restarts(self) -> int:
        return self._exchange.restarts()
