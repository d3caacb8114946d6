"""How many nodes may be started now, and what holds back the others."""

from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.fleet.decide.node_state import NodeState

Nodes: TypeAlias = tuple[NodeState, ...]

_STALLING = frozenset(
    {
        Reason.FAILURE_THRESHOLD_REACHED,
        Reason.SAME_CAUSE_REPEATED,
        Reason.ROLLBACK_FAILED,
        Reason.TOO_MANY_UNAVAILABLE,
        Reason.TIMED_OUT,
        Reason.HEALTH_CHECK_FAILED,
        Reason.HEALTH_CHECK_ERROR,
        Reason.OVERLAP_CONFLICT,
    }
)
"""Reasons that stall a rollout until a person acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDecision:
    """The nodes that may be started now; if there are none, ``reason`` and ``message`` say why."""

    nodes: Nodes = ()
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    behind: bool = False  # whether the whole rollout waits for an older one

    @property
    def stalls(self) -> bool:
        """Whether a person is needed before the rollout can continue."""
        return self.reason in _STALLING
