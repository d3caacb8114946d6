"""Back-off for single nodes: writes that the API server refuses and agents that cannot run are retried later.

The operator keeps this in memory only; after a restart it retries at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import CreateAgent, NodeAction, Wait

SHORTEST, LONGEST = timedelta(seconds=10), timedelta(minutes=5)

FORGOTTEN_AFTER = timedelta(minutes=1)
"""How long after its retry was due a refused write that nobody retried is remembered."""

_AGAIN = "it is tried again by itself"

_REMEDIES = {
    "violates PodSecurity": "label the operator's namespace pod-security.kubernetes.io/enforce=privileged",
    "exceeded quota": "raise the quota that the message names, or remove it from the operator's namespace",
    "failed calling webhook": "repair the webhook that the message names, or exempt the operator's namespace from it",
    "error looking up service account": "apply manifests/agent-rbac.yaml, or upgrade the chart",
    'is forbidden: User "': "apply manifests/operator-rbac.yaml, or upgrade the chart",
}
"""What to do about a refused write, by words of the API server that mean only this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A write for one node that the API server refused or did not answer."""

    action: type[NodeAction]  # the kind of action that failed
    problem: str  # the error of the API server
    since: datetime  # when it first failed
    count: int  # number of failures in a row
    again: datetime  # when it is due for a retry

    @property
    def reason(self) -> Reason:
        """The reason under which it is reported."""
        if self.action is Wait:  # what comes next could not even be decided
            return Reason.INTERNAL_ERROR
        return Reason.AGENT_UNAVAILABLE if self.action is CreateAgent else Reason.WRITE_REFUSED

    def finding(self, node: NodeName) -> Finding:
        """Return the finding to report for this node."""
        known, own = self.remedy, Reason.INTERNAL_ERROR if self.action is Wait else Reason.WRITE_REFUSED
        remedy = own.remedy if known is None else f"{known}; {_AGAIN}"
        return Finding(reason=self.reason, subject=node, detail=f"node {node}: {self.problem}", remedy=remedy)

    @property
    def remedy(self) -> str | None:
        """What to do about this very problem; None if its words do not tell."""
        return next((remedy for words, remedy in _REMEDIES.items() if words in self.problem), None)


Setbacks: TypeAlias = Mapping[tuple[NodeName, type[NodeAction]], Setback]
"""Setbacks by node and kind of action."""


def rest(count: int) -> timedelta:
    """Return how long to wait after this many failures in a row: exponential, from SHORTEST to LONGEST."""
    return min(LONGEST, SHORTEST * 2.0 ** min(count - 1, 10))


def after(before: Setback | None, action: type[NodeAction], problem: str, now: datetime) -> Setback:
    """Return the setback after another failure of the same write."""
    since, count = (now, 1) if before is None else (before.since, before.count + 1)
    return Setback(action=action, problem=problem, since=since, count=count, again=now + rest(count))
