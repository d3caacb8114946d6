"""What goes wrong with one node and is tried again: writes that are refused, agents that cannot run. How long to wait.

An operator remembers them for as long as it lives and no longer: one that is started anew tries again at once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.rollout.actions import CreateAgent, NodeAction, Wait

SHORTEST, LONGEST = timedelta(seconds=10), timedelta(minutes=5)

FORGOTTEN_AFTER = timedelta(minutes=1)
"""How long after it was due a write that is not tried again counts as refused."""

_HINDERING = frozenset({Reason.AGENT_UNAVAILABLE, Reason.ARTIFACT_UNAVAILABLE, Reason.WRITE_REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A write for a node that the API server refused, or did not answer.

    Attributes:
        deed: name of the decision that could not be carried out.
        problem: what the API server said.
        since: when it was refused first.
        count: how often in a row.
        again: when it is tried again.
    """

    deed: str
    problem: str
    since: datetime
    count: int
    again: datetime

    @property
    def reason(self) -> Reason:
        """Under which reason people are told."""
        return Reason.AGENT_UNAVAILABLE if self.deed == CreateAgent.__name__ else Reason.WRITE_REFUSED

    def finding(self, node: NodeName) -> Finding:
        """Tell which node is concerned, what was said, and what can be done about it."""
        detail, remedy = f"node {node}: {self.problem}", Reason.WRITE_REFUSED.remedy
        return Finding(reason=self.reason, subject=node, detail=detail, remedy=remedy)


Setbacks: TypeAlias = Mapping[tuple[NodeName, str], Setback]
"""By node and deed."""


def rest(count: int) -> timedelta:
    """Say how long to wait after so many failures in a row."""
    return min(LONGEST, SHORTEST * 2.0 ** min(count - 1, 10))


def after(before: Setback | None, deed: str, problem: str, now: datetime) -> Setback:
    """Take note of another refusal."""
    since, count = (now, 1) if before is None else (before.since, before.count + 1)
    return Setback(deed=deed, problem=problem, since=since, count=count, again=now + rest(count))


def held_back(actions: Iterable[NodeAction], setbacks: Setbacks, now: datetime) -> tuple[NodeAction, ...]:
    """Let what was refused wait until it is due again; anything else that is decided for the node is done."""
    return tuple(_held_back(action, setbacks, now) for action in actions)


def is_held_back(action: NodeAction, setbacks: Setbacks, now: datetime) -> bool:
    """Whether a decision was refused for its node, and is not due again."""
    setback = setback_of(action, setbacks)
    return setback is not None and now < setback.again


def setback_of(action: NodeAction, setbacks: Setbacks) -> Setback | None:
    """Return how often this very decision was refused."""
    return setbacks.get((getattr(action, "node", NodeName("")), type(action).__name__))


def impediments(actions: Iterable[NodeAction], setbacks: Setbacks) -> tuple[Finding, ...]:
    """Say what keeps nodes from getting on, one finding for each."""
    found = {
        action.node: Finding(reason=action.reason, subject=action.node, detail=action.message, remedy="")
        for action in actions
        if isinstance(action, Wait) and action.reason in _HINDERING
    }
    for (node, _), setback in sorted(setbacks.items()):
        found.setdefault(node, setback.finding(node))
    return tuple(found[node] for node in sorted(found))


def summed_up(found: tuple[Finding, ...]) -> str:
    """Tell the first, and how many more there are."""
    more = len(found) - 1
    return found[0].message + (f" ({counted(more, 'more node')} likewise or for other reasons)" if more else "")


def _held_back(action: NodeAction, setbacks: Setbacks, now: datetime) -> NodeAction:
    setback, node = setback_of(action, setbacks), getattr(action, "node", None)
    if node is None or setback is None or now >= setback.again:
        return action
    return Wait(node=node, reason=setback.reason, message=setback.finding(node).message)
