"""Builds Leases, and decides on them as a candidate does."""

from nodeupgrade.fleet.leadership.election import (
    DURATION,
    Contender,
    LeaseAction,
    LeaseObservation,
    LeaseRecord,
    decide,
)

ME, OTHER = Contender(identity="me"), LeaseRecord(holder="other", duration=DURATION, transitions=4, renewed_at="then")
MOMENT = "2026-01-01T00:00:00.000000Z"


def decided(lease: LeaseRecord | None, after: float, me: Contender = ME) -> LeaseAction:
    return decide(LeaseObservation(lease=lease, since=100.0), me, 100.0 + after, MOMENT)
