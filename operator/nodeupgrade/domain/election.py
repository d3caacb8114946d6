"""What a contender does about the Lease that it sees: a pure function of the Lease, when it was first seen, and now.

Times are seconds of a clock that never jumps and runs on while the machine is suspended. Clocks of different machines
are never compared: a Lease is expired when *this* contender has seen no change in it for its duration.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from nodeupgrade.api.json import Json

DURATION = timedelta(seconds=15)
"""How long the others wait for a leader that renews no more."""

RENEW_WITHIN = timedelta(seconds=10)
"""How long a leader acts on one renewal. The rest of the duration is for requests that are on their way."""

RETRY = timedelta(seconds=2)
"""Interval between renewals, and between the looks of a contender that waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of a Lease, without its resourceVersion."""

    holder: str  # identity of the leader; empty if the Lease was released
    duration: timedelta  # how long the others wait after the last renewal that they saw
    transitions: int = 0  # how often the holder has changed; identifies a term of office
    renewed_at: str = ""  # the renewal as the holder's clock told it. It is compared for change only: clocks differ.
    acquired_at: str = ""  # the beginning of the term, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseObservation:
    """A Lease as a contender sees it."""

    lease: LeaseRecord | None  # None if there is none
    since: float  # when this contender first saw it like this


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A process that may lead."""

    identity: str  # its name
    # the highest ``transitions`` that it has seen, so that a Lease that was deleted and created again does not begin to
    # count anew
    last_term: int = 0
    leads: bool = False  # whether it holds the Lease for certain


@dataclass(frozen=True, slots=True)
class Create:
    """Create the Lease."""

    lease: LeaseRecord


@dataclass(frozen=True, slots=True)
class Update:
    """Write the Lease, on condition that it is still the one that was seen."""

    lease: LeaseRecord


@dataclass(frozen=True, slots=True)
class Yield:
    """Another contender leads; look again in so many seconds."""

    seconds: float


Decision: TypeAlias = Create | Update | Yield


def see(before: LeaseObservation | None, lease: LeaseRecord | None, now: float) -> LeaseObservation:
    """Return what a contender knows after a look."""
    if before is not None and before.lease == lease:
        return before
    return LeaseObservation(lease=lease, since=now)


def decide(sight: LeaseObservation, me: Contender, now: float, moment: str) -> Decision:
    """Return what to do about the Lease, now by the contender's clock; ``moment`` is what is written into the Lease."""
    lease, term = sight.lease, me.last_term + 1
    mine = LeaseRecord(holder=me.identity, duration=DURATION, transitions=term, renewed_at=moment, acquired_at=moment)
    if lease is None:
        # It is installed with everything else. Somebody has deleted it, and its holder may lead on.
        return Create(mine) if me.leads else _until(sight.since + DURATION.total_seconds(), now) or Create(mine)
    if lease.holder == me.identity and me.leads:
        return Update(replace(lease, duration=DURATION, renewed_at=moment))
    if lease.holder in {"", me.identity}:
        return Update(mine)
    return _until(sight.since + lease.duration.total_seconds(), now) or Update(mine)


def _until(end: float, now: float) -> Yield | None:
    return None if now >= end else Yield(min(RETRY.total_seconds(), end - now))


def released(lease: LeaseRecord, moment: str) -> LeaseRecord:
    """Return the Lease as a leader leaves it: free at once, with the term counted."""
    return LeaseRecord(holder="", duration=timedelta(seconds=1), transitions=lease.transitions, renewed_at=moment)


# What a Lease says (coordination.k8s.io/v1). Anyone with the right to write it may have written anything.

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


# What a leader marks objects with: its term of office and its name, as ``7-POD_ID``.


def epoch_of(term: int, identity: str) -> str:
    """Return the mark of a term."""
    return f"{term}-{identity}"


def term_of(epoch: str) -> int:
    """Return the term that a mark is of; 0 if there is none, or if it is none that an operator has written."""
    term = epoch.partition("-")[0]
    return int(term) if term.isascii() and term.isdigit() and len(term) < 12 and int(term) <= LAST_TERM else 0


def outranks(mark: str, epoch: str) -> bool:
    """Report whether a mark shows that the term of ``epoch`` is over.

    Another mark of the same term does so, too: a term of both that is later than this one settles which is valid.
    """
    return mark != epoch and term_of(mark) > 0 and term_of(mark) >= term_of(epoch)
