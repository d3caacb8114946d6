"""One thing that forbids touching a node, or that deserves attention."""

from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason

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
    """A failed check.

    Attributes:
        subject: what it is about, such as ``namespace/pod/container``; empty for the node itself.
        detail: a sentence.
    """

    reason: Reason
    detail: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail}" if self.subject else self.detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """Something that people should know of before and after a run, and that forbids nothing."""

    reason: Reason
    detail: str

    def __str__(self) -> str:
        return self.detail
