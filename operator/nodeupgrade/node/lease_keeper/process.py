"""Renews the node's Lease while no kubelet does: ``python -m nodeupgrade.node.lease_keeper.process``, by systemd.

The control plane marks a node NotReady, and removes its pods from all Services, if its Lease is not renewed for 40 s
(50 s from 1.32 on). The containers run all the time, so this process renews the Lease with the kubelet's own
credentials until the kubelet-down budget is spent; a longer hold starts it again. A program that prints the
credentials runs here too, from before the kubelet is stopped. The process is separate from the executor, which has no
credentials and must not depend on it.
"""

import argparse
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.logs import log_to_stderr
from nodeupgrade.node.lease_keeper.wiring import lease_of
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


def main() -> int:
    """Renew the Lease of the node named on the command line, for the given time."""
    options = argparse.ArgumentParser(description="Renew a node's Lease while its kubelet is down.")
    options.add_argument("--kubeconfig", type=PurePosixPath, required=True, help="the kubelet's own")
    options.add_argument("--environment", type=Path, required=True, help="the kubelet's, if a program needs it (JSON)")
    options.add_argument("--node", required=True, help="name of the Node")
    options.add_argument("--seconds", type=float, required=True, help="after which it ends")
    given = options.parse_args()
    try:
        lease = lease_of(given.node, given.kubeconfig, given.environment)
    except (OSError, ValueError) as error:
        log.warning("lease_unavailable", kubeconfig=str(given.kubeconfig), error=str(error))
        return 0
    count = renew(lease, given.seconds)
    log.info("lease_keeper_ended", node=given.node, renewed=count)
    return 0


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(main())
