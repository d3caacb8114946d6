"""What an operator remembers between two passes: only how often something failed, so that it is not tried too often."""

from collections.abc import Iterable
from datetime import datetime

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import DeleteAgent, NodeAction
from nodeupgrade.domain.rollout.backoff import FORGOTTEN_AFTER, LONGEST, Setback, Setbacks, after
from nodeupgrade.engine.rollout.actuator import Refusal


class Memory:
    """Of one NodeUpgrade's nodes."""

    def __init__(self) -> None:
        self._setbacks: dict[tuple[NodeName, str], Setback] = {}
        self._lost: dict[NodeName, tuple[str, int]] = {}

    def setbacks(self, now: datetime) -> Setbacks:
        """Return what is refused; what nobody tries any more is forgotten."""
        self._setbacks = {
            key: setback for key, setback in self._setbacks.items() if now < setback.again + FORGOTTEN_AFTER
        }
        return dict(self._setbacks)

    @property
    def agents_lost(self) -> dict[NodeName, tuple[str, int]]:
        """By node: the run, and how many of its agents in a row did not live long."""
        return dict(self._lost)

    def learn(self, applied: Iterable[NodeAction], refused: Iterable[Refusal], now: datetime) -> None:
        """Take note of what a pass came to."""
        for action in applied:
            if (node := getattr(action, "node", None)) is None:
                continue
            self._setbacks.pop((node, type(action).__name__), None)
            if isinstance(action, DeleteAgent) and not action.pod.deleting:
                run, count = self._lost.get(node, ("", 0))
                again = run == action.pod.run_id and now - action.pod.created_at < 2 * LONGEST  # it was kept
                self._lost[node] = (action.pod.run_id, count + 1 if again else 1)
        for refusal in refused:
            key = (refusal.node, refusal.deed)
            self._setbacks[key] = after(self._setbacks.get(key), refusal.deed, refusal.problem, now)
