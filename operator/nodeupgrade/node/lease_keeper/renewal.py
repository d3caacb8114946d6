"""Renews the node's Lease whenever no kubelet has done so in time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.node.running_kubelet.requests import KubeletLease
from nodeupgrade.text import integer, parse_time

LOOK_SECONDS = 2.0
STALE = 0.3
"""Fraction of a Lease's duration after which it is renewed here. A running kubelet renews it after a quarter."""
_LEAST = timedelta(microseconds=1)

log = structlog.get_logger()


@dataclass(slots=True)
class Staleness:
    """How long a Lease has had its present renewTime, whatever anybody's clock said in it."""

    renewed: object = None  # the renewTime seen last
    since: float = 0.0  # when it was seen first, in seconds of the monotonic clock

    def is_stale(self, lease: Json, monotonic: float) -> bool:
        """Take note of a Lease as it is now, and report whether nobody has renewed it for too long."""
        spec = lease["spec"]
        if spec["renewTime"] != self.renewed:
            self.renewed, self.since = spec["renewTime"], monotonic
        return monotonic - self.since >= STALE * integer(spec["leaseDurationSeconds"])


def renewed(lease: Json, now: datetime) -> Json:
    """Return the Lease with a new renewTime: to the control plane, only one later than the last renews it."""
    spec = lease["spec"]
    moment = max(now, parse_time(spec["renewTime"]) + _LEAST)
    return lease | {"spec": spec | {"renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}


def renew(
    api: KubeletLease,
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Renew the Lease for so many seconds whenever it becomes stale; return the number of renewals."""
    end, count, seen = monotonic() + seconds, 0, Staleness()
    while monotonic() < end:
        try:
            lease = api.read()
            if seen.is_stale(lease, monotonic()):
                lease = renewed(lease, datetime.now(UTC))
                api.replace(lease)
                count += 1
                log.info("lease_renewed", node=api.node, at=lease["spec"]["renewTime"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            log.warning("lease_renewal_failed", node=api.node, error=str(error))
        sleep(LOOK_SECONDS)
    return count
