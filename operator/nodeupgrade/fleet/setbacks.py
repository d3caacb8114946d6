"""Back-off for single nodes: the operator retries refused writes and agents that cannot run after growing delays.

It keeps this in memory only; after a restart it retries at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.values import NodeName
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import CreateAgent, DeleteAgent, NodeAction, Wait

SHORTEST, LONGEST = timedelta(seconds=10), timedelta(minutes=5)

FORGOTTEN_AFTER = timedelta(minutes=1)
"""How long after its retry was due a refused write is remembered."""

_REMEDIES = {
    "violates PodSecurity": "label the operator's namespace pod-security.kubernetes.io/enforce=privileged",
    "exceeded quota": "raise the quota that the message names, or remove it from the operator's namespace",
    "failed calling webhook": "repair the webhook that the message names, or exempt the operator's namespace from it",
    "error looking up service account": "apply manifests/agent-rbac.yaml, or upgrade the chart",
    'is forbidden: User "': "apply manifests/operator-rbac.yaml, or upgrade the chart",
}
"""Remedies for a refused write, by words of the API server that mean only this."""

_NO_RIGHTS = "cannot get resource"
"""Words of the API server's answer to a read without permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """A write for one node that the API server refused or did not answer."""

    action: type[NodeAction]  # the kind of action that failed
    problem: str  # the error of the API server
    since: datetime  # the first failure
    count: int  # failures in a row
    again: datetime  # when the retry is due

    @property
    def reason(self) -> Reason:
        """The reason under which it is reported."""
        if self.action is Wait:  # the next action could not be decided
            return Reason.INTERNAL_ERROR
        return Reason.AGENT_UNAVAILABLE if self.action is CreateAgent else Reason.WRITE_REFUSED

    def finding(self, node: NodeName) -> Finding:
        """Return the finding to report for this node."""
        known, own = self.remedy, Reason.INTERNAL_ERROR if self.action is Wait else Reason.WRITE_REFUSED
        remedy = own.remedy if known is None else f"{known} (the write is retried automatically)"
        return Finding(reason=self.reason, subject=node, detail=f"node {node}: {self.problem}", remedy=remedy)

    @property
    def remedy(self) -> str | None:
        """The remedy for this problem; None if its words do not show one."""
        return next((remedy for words, remedy in _REMEDIES.items() if words in self.problem), None)


Setbacks: TypeAlias = Mapping[tuple[NodeName, type[NodeAction]], Setback]
"""Setbacks by node and kind of action."""


def retry_delay(count: int) -> timedelta:
    """Return the delay after this many failures in a row: exponential, from SHORTEST to LONGEST."""
    return min(LONGEST, SHORTEST * 2.0 ** min(count - 1, 10))


def next_setback(before: Setback | None, action: type[NodeAction], problem: str, now: datetime) -> Setback:
    """Return the setback after another failure of the same write."""
    since, count = (now, 1) if before is None else (before.since, before.count + 1)
    return Setback(action=action, problem=problem, since=since, count=count, again=now + retry_delay(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAgents:
    """The agents of one run that ended early."""

    run_id: str = ""
    count: int = 0  # how many in a row
    why: str = ""  # why the last one ended of which the kubelet says so; empty if it says so of none

    def finding(self, task: Task) -> Finding | None:
        """Return why the last agent of the task's run ended if it gave a reason and reported nothing, else None."""
        if not (task.open and not task.has_reported and self.why and self.run_id == task.spec.run_id):
            return None
        reason = Reason.AGENT_UNAVAILABLE
        detail = f"the agent on node {task.name} ended and reported nothing: {self.why}"
        remedy = "apply manifests/agent-rbac.yaml, or upgrade the chart" if _NO_RIGHTS in self.why else reason.remedy
        return Finding(reason=reason, subject=task.name, detail=detail, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureHistory:
    """Writes that failed, and agents that ended early, by node."""

    writes: Setbacks = field(default_factory=dict)
    agents_lost: Mapping[NodeName, LostAgents] = field(default_factory=dict)  # the agents of its run

    def setbacks(self, now: datetime) -> Setbacks:
        """Return the setbacks that are still retried."""
        return {key: setback for key, setback in self.writes.items() if now < setback.again + FORGOTTEN_AFTER}

    def succeeded(self, action: NodeAction, now: datetime) -> "FailureHistory":
        """Return the history after an action that succeeded."""
        if (node := getattr(action, "node", None)) is None:
            return self
        writes = {key: setback for key, setback in self.setbacks(now).items() if key != (node, type(action))}
        if not isinstance(action, DeleteAgent) or action.pod.deleting:
            return replace(self, writes=writes)
        known, pod = self.agents_lost.get(node, LostAgents()), action.pod
        same = known.run_id == pod.run_id
        again = same and now - pod.created_at < 2 * LONGEST  # an agent that ended stays for up to LONGEST
        why = pod.ended or (known.why if same else "")
        lost = LostAgents(run_id=pod.run_id, count=known.count + 1 if again else 1, why=why)
        return FailureHistory(writes=writes, agents_lost={**self.agents_lost, node: lost})

    def failed(self, action: NodeAction, problem: str, now: datetime) -> "FailureHistory":
        """Return the history after an action that failed, mostly one that the API server refused or did not answer."""
        if (node := getattr(action, "node", None)) is None:
            return self
        key, writes = (node, type(action)), self.setbacks(now)
        return replace(self, writes={**writes, key: next_setback(writes.get(key), type(action), problem, now)})
