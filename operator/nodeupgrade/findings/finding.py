"""Findings: the one form of every objection to, and warning about, a node or a rollout.

Code that may object returns a Finding or None, never a text: the reason is for programs, the detail and the remedy
are for people. Severity and remedy are defined by the reason (``api/reasons.py``); a finding overrides them only
where it differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.wording import with_remedy

PASSING = frozenset(
    {
        Reason.EARLIER_RUN_FOUND,
        Reason.EXECUTOR_AT_WORK,
        Reason.POD_IN_TRANSITION,
        Reason.HASHES_NOT_YET_COMPARED,
        Reason.UNKNOWN_CONTAINER,
        Reason.INVENTORY_CHANGED,
        Reason.RUNTIME_DID_NOT_ANSWER,
        Reason.RUNTIME_NOT_READY,
        Reason.STARTUP_PROBE_RUNS_AGAIN,
        Reason.CONFLICTING_NODE_OPERATION,
    }
)
"""Reasons that often resolve by themselves: an agent retries within seconds, a rollout after minutes."""


NAMED = 5
"""Pods or containers that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An objection to touching a node or continuing a rollout, or a warning about it."""

    reason: Reason
    detail: str  # what was seen, without a full stop
    subject: str = ""  # what it is about, such as ``namespace/pod/container``; empty for the node or the rollout itself
    severity: Severity | None = None  # overrides the severity of the reason; None keeps it
    remedy: str | None = None  # overrides the remedy of the reason; None keeps it, an empty one omits it
    check: str = ""  # name of the check that found it; empty if no check did
    accepted: bool = False  # whether it would forbid, had the NodeUpgrade not accepted its check
    owner: str = ""  # whose pod it is about (``Pod.owner``); empty if it is about no pod, or if that is not known

    @property
    def weight(self) -> Severity:
        """The severity that applies: the finding's own, else that of its reason."""
        return self.severity or self.reason.severity

    @property
    def forbids(self) -> bool:
        """Whether the node must not be touched because of it."""
        return self.weight is not Severity.WARN

    @property
    def message(self) -> str:
        """The detail and the remedy, for conditions, events and counters."""
        remedy = self.reason.remedy if self.remedy is None else self.remedy
        return with_remedy(self.detail, remedy) if remedy else self.detail

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail}" if self.subject else self.detail


def named(labels: Sequence[str], most: int = NAMED) -> str:
    """List the first few names, and how many more there are."""
    more = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + more


def pod_of(subject: str) -> str:
    """Return the pod as ``namespace/pod`` if the subject is one or a container of one, else an empty string."""
    parts = subject.split("/")
    return "/".join(parts[:2]) if len(parts) in {2, 3} else ""
