"""What a Lease says (coordination.k8s.io/v1), and the term of office by which a leader marks objects.

Anyone with the right to write a Lease may have written anything. A mark is the term and the name, as ``7-POD_ID``.
"""

from datetime import UTC, datetime, timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.fleet.leadership.election import LeaseRecord
from nodeupgrade.text import number

LAST_TERM = 2_000_000_000
"""Highest number of a term that is believed; a Lease has no room for more than 2,147,483,647."""

LONGEST_SECONDS = 300
"""Longest duration that is believed: a Lease with an absurd one must not leave the fleet without an operator."""


def read(body: Json) -> LeaseRecord:
    """Return the content of a Lease; what is missing or malformed counts as not written, so a broken Lease is free."""
    found = body.get("spec")
    spec: Json = found if isinstance(found, dict) else {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    return LeaseRecord(
        holder=_text(spec, "holderIdentity"),
        duration=timedelta(seconds=min(max(seconds, 0), LONGEST_SECONDS) if isinstance(seconds, int) else 0),
        transitions=transitions if isinstance(transitions, int) and 0 <= transitions <= LAST_TERM else 0,
        renewed_at=_text(spec, "renewTime"),
        acquired_at=_text(spec, "acquireTime"),
    )


def render(lease: LeaseRecord) -> Json:
    """Return the Lease's spec; without a holder, times are removed."""
    return {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": max(1, int(lease.duration.total_seconds())),
        "leaseTransitions": lease.transitions,
        "renewTime": lease.renewed_at or None,
        "acquireTime": lease.acquired_at or None,
    }


def micro_time(moment: datetime) -> str:
    """Format a time as Leases have it: RFC 3339 in UTC with microseconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(spec: Json, name: str) -> str:
    value = spec.get(name)
    return value if isinstance(value, str) else ""


def epoch_of(term: int, identity: str) -> str:
    """Return the mark of a term."""
    return f"{term}-{identity}"


def term_of(epoch: str) -> int:
    """Return the term that a mark is of; 0 if there is none, or if it is none that an operator has written."""
    term = number(epoch.partition("-")[0]) or 0
    return term if term <= LAST_TERM else 0


def supersedes(mark: str, epoch: str) -> bool:
    """Report whether a mark shows that the term of ``epoch`` is over.

    Another mark of the same term does so, too: a term of both that is later than this one settles which is valid.
    """
    return mark != epoch and term_of(mark) > 0 and term_of(mark) >= term_of(epoch)
