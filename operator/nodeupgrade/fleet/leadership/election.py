"""What a contender does about the Lease that it sees: a pure function of the Lease, when it was first seen, and now.

Times are seconds of a clock that never jumps and runs on while the machine is suspended. Clocks of different machines
are never compared: a Lease is expired when *this* contender has seen no change in it for its duration.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeAlias

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


LeaseAction: TypeAlias = Create | Update | Yield


def observe(before: LeaseObservation | None, lease: LeaseRecord | None, now: float) -> LeaseObservation:
    """Return what a contender knows after a look."""
    if before is not None and before.lease == lease:
        return before
    return LeaseObservation(lease=lease, since=now)


def decide(observed: LeaseObservation, me: Contender, now: float, moment: str) -> LeaseAction:
    """Return what to do about the Lease, now by the contender's clock; ``moment`` is what is written into the Lease."""
    lease, term = observed.lease, me.last_term + 1
    mine = LeaseRecord(holder=me.identity, duration=DURATION, transitions=term, renewed_at=moment, acquired_at=moment)
    if lease is None:
        # It is installed with everything else. Somebody has deleted it, and its holder may lead on.
        return Create(mine) if me.leads else _until(observed.since + DURATION.total_seconds(), now) or Create(mine)
    if lease.holder == me.identity and me.leads:
        return Update(replace(lease, duration=DURATION, renewed_at=moment))
    if lease.holder in {"", me.identity}:
        return Update(mine)
    return _until(observed.since + lease.duration.total_seconds(), now) or Update(mine)


def _until(end: float, now: float) -> Yield | None:
    return None if now >= end else Yield(min(RETRY.total_seconds(), end - now))


def released(lease: LeaseRecord, moment: str) -> LeaseRecord:
    """Return the Lease as a leader leaves it: free at once, with the term counted."""
    return LeaseRecord(holder="", duration=timedelta(seconds=1), transitions=lease.transitions, renewed_at=moment)
