"""Renews the node's Lease whenever no kubelet has done so in time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.node.running_kubelet.requests import KubeletLease

LOOK_SECONDS = 2.0
STALE = 0.3
"""Fraction of a Lease's duration after which it is renewed here. A running kubelet renews it after a quarter."""

log = structlog.get_logger()


def renewed_if_stale(lease: Json, now: datetime) -> Json | None:
    """Return the Lease with a new renewTime; ``None`` if it was renewed recently."""
    spec = lease["spec"]
    last = datetime.fromisoformat(spec["renewTime"])
    if (now - last).total_seconds() < STALE * spec["leaseDurationSeconds"]:
        return None
    moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return lease | {"spec": spec | {"renewTime": moment}}


def renew(
    api: KubeletLease,
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Renew the Lease for so many seconds whenever it becomes stale; return the number of renewals."""
    end, count = monotonic() + seconds, 0
    while monotonic() < end:
        try:
            lease = renewed_if_stale(api.read(), datetime.now(UTC))
            if lease is not None:
                api.replace(lease)
                count += 1
                log.info("lease_renewed", node=api.node, at=lease["spec"]["renewTime"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("lease_renewal_failed", node=api.node, error=str(error))
        sleep(LOOK_SECONDS)
    return count
