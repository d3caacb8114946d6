"""What a check finds: the one form of every "no, because" and "yes, but" about a node or a rollout.

Whoever may say no returns a Finding or none, never a text: its reason is for programs, its detail and its remedy are
for people. What follows from a finding, and what to do about it, is said of its reason (``api/reasons.py``), and of a
finding only where it differs.
"""

from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason, Severity, with_remedy

PASSING = frozenset(
    {
        Reason.EARLIER_RUN,
        Reason.POD_IN_TRANSITION,
        Reason.UNKNOWN_CONTAINER,
        Reason.INVENTORY_CHANGED,
        Reason.RUNTIME_DID_NOT_ANSWER,
        Reason.RUNTIME_NOT_READY,
        Reason.STARTUP_PROBE_RUNS_AGAIN,
    }
)
"""Reasons that often pass by themselves: an agent looks again within seconds, a rollout after minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What speaks against touching a node or going on with a rollout, or what people should know before.

    Attributes:
        subject: what it is about, such as ``namespace/pod/container``; empty for the node or the rollout itself.
        detail: what was seen, without a full stop.
        severity: where something else follows from it than from its reason in general.
        remedy: where something else can be done about it; empty if the detail says everything.
    """

    reason: Reason
    detail: str
    subject: str = ""
    severity: Severity | None = None
    remedy: str | None = None

    @property
    def weight(self) -> Severity:
        """What follows from it."""
        return self.severity or self.reason.severity

    @property
    def forbids(self) -> bool:
        """Whether the node is left alone for it."""
        return self.weight is not Severity.WARN

    @property
    def message(self) -> str:
        """What was seen and what a person can do about it, for conditions, events and counters."""
        remedy = self.reason.remedy if self.remedy is None else self.remedy
        return with_remedy(self.detail, remedy) if remedy else self.detail

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail}" if self.subject else self.detail
