"""State that the operator keeps between passes: only failure counts, for back-off."""

from collections.abc import Iterable
from datetime import datetime

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import DeleteAgent, NodeAction
from nodeupgrade.domain.rollout.backoff import FORGOTTEN_AFTER, LONGEST, Setback, Setbacks, after
from nodeupgrade.engine.rollout.lanes import Refusal


class FailureHistory:
    """Failure counts for the nodes of one NodeUpgrade."""

    def __init__(self) -> None:
        self._setbacks: dict[tuple[NodeName, type[NodeAction]], Setback] = {}
        self._lost: dict[NodeName, tuple[str, int]] = {}

    def setbacks(self, now: datetime) -> Setbacks:
        """Return current setbacks; those that are no longer retried are dropped."""
        self._setbacks = {
            key: setback for key, setback in self._setbacks.items() if now < setback.again + FORGOTTEN_AFTER
        }
        return dict(self._setbacks)

    @property
    def agents_lost(self) -> dict[NodeName, tuple[str, int]]:
        """By node: the run ID and how many of its agents in a row ended early."""
        return dict(self._lost)

    def learn(self, applied: Iterable[NodeAction], refused: Iterable[Refusal], now: datetime) -> None:
        """Record the results of a pass."""
        for action in applied:
            if (node := getattr(action, "node", None)) is None:
                continue
            self._setbacks.pop((node, type(action)), None)
            if isinstance(action, DeleteAgent) and not action.pod.deleting:
                run, count = self._lost.get(node, ("", 0))
                again = (
                    run == action.pod.run_id and now - action.pod.created_at < 2 * LONGEST
                )  # an agent that ended stays for up to LONGEST
                self._lost[node] = (action.pod.run_id, count + 1 if again else 1)
        for refusal in refused:
            key = (refusal.node, refusal.action)
            self._setbacks[key] = after(self._setbacks.get(key), refusal.action, refusal.problem, now)
