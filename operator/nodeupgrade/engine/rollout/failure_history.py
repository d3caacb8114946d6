"""What failed lately for the nodes of one NodeUpgrade, for back-off."""

from datetime import datetime

from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import DeleteAgent, NodeAction
from nodeupgrade.domain.rollout.backoff import FORGOTTEN_AFTER, LONGEST, Setback, Setbacks, after
from nodeupgrade.domain.rollout.snapshot import LostAgents


class FailureHistory:
    """Writes that failed, and agents that ended early, by node."""

    def __init__(self) -> None:
        self._setbacks: dict[tuple[NodeName, type[NodeAction]], Setback] = {}
        self._lost: dict[NodeName, LostAgents] = {}

    def setbacks(self, now: datetime) -> Setbacks:
        """Return current setbacks; those that are no longer retried are dropped."""
        self._setbacks = {
            key: setback for key, setback in self._setbacks.items() if now < setback.again + FORGOTTEN_AFTER
        }
        return dict(self._setbacks)

    @property
    def agents_lost(self) -> dict[NodeName, LostAgents]:
        """By node: the agents of its run that ended early."""
        return dict(self._lost)

    def succeeded(self, action: NodeAction, now: datetime) -> None:
        """Record an action that was carried out."""
        if (node := getattr(action, "node", None)) is None:
            return
        self._setbacks.pop((node, type(action)), None)
        if isinstance(action, DeleteAgent) and not action.pod.deleting:
            known, pod = self._lost.get(node, LostAgents()), action.pod
            same = known.run_id == pod.run_id
            again = same and now - pod.created_at < 2 * LONGEST  # an agent that ended stays for up to LONGEST
            why = pod.ended or (known.why if same else "")
            self._lost[node] = LostAgents(run_id=pod.run_id, count=known.count + 1 if again else 1, why=why)

    def failed(self, action: NodeAction, problem: str, now: datetime) -> None:
        """Record an action that could not be carried out: mostly, the API server refused or did not answer it."""
        if (node := getattr(action, "node", None)) is not None:
            key = (node, type(action))
            self._setbacks[key] = after(self._setbacks.get(key), type(action), problem, now)
