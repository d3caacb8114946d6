"""Renews the node's Lease while no kubelet does: ``python -m nodeupgrade.agent.host.lease_keeper``, started by systemd.

The control plane takes a node for lost, and takes its pods out of every Service, when its Lease was not renewed for
40 s (50 s from 1.32 on). The containers are well all the time, so the Lease is renewed in the kubelet's stead, with
the kubelet's own credentials, until the kubelet-down budget is spent; whoever holds a run for longer starts it again.
It is a process of its own: the executor has no credentials, and does not depend on whether this works.
"""

import argparse
import http.client
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import structlog

from nodeupgrade.adapters.kubelet.identity import ask
from nodeupgrade.adapters.observability import log_to_stderr
from nodeupgrade.kubelet.kubeconfig import Credentials, parse

LOOK_SECONDS = 2.0
STALE = 0.3
"""Part of a Lease's duration after which it is renewed here. A kubelet that runs renews it after a quarter."""

log = structlog.get_logger()
Lease = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseApi:
    """One node's Lease.

    Raises OSError or ValueError when it cannot be had.
    """

    credentials: Credentials
    node: str

    def read(self) -> Lease:
        """The Lease as it is."""
        return self._ask("GET", None)

    def replace(self, lease: Lease) -> None:
        """Put another in the place of the one that was read; refused if somebody else did so meanwhile."""
        self._ask("PUT", lease)

    def _ask(self, verb: str, body: Lease | None) -> Lease:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{quote(self.node)}"
        answer = ask(self.credentials, verb, path, body)
        if answer.status != http.client.OK:
            raise OSError(f"{verb} of the Lease ended with status {answer.status}: {answer.text[:200]!r}")
        lease: Lease = json.loads(answer.text)
        return lease


def renewed(lease: Lease, now: datetime) -> Lease | None:
    """The Lease renewed, or ``None`` as long as whoever renews it does so."""
    spec = lease["spec"]
    last = datetime.fromisoformat(spec["renewTime"])
    if (now - last).total_seconds() < STALE * spec["leaseDurationSeconds"]:
        return None
    moment = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return lease | {"spec": spec | {"renewTime": moment}}


def keep(
    api: LeaseApi,
    seconds: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Renew the Lease whenever nobody did for a while, for so many seconds; return how often that was."""
    end, count = monotonic() + seconds, 0
    while monotonic() < end:
        try:
            lease = renewed(api.read(), datetime.now(UTC))
            if lease is not None:
                api.replace(lease)
                count += 1
                log.info("renewed", node=api.node, at=lease["spec"]["renewTime"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("cannot renew the Lease yet", node=api.node, error=str(error))
        sleep(LOOK_SECONDS)
    return count


def main() -> int:
    """Keep one node's Lease fresh, for a while."""
    options = argparse.ArgumentParser(description="Renew a node's Lease while its kubelet is down.")
    options.add_argument("--kubeconfig", type=PurePosixPath, required=True, help="the kubelet's own")
    options.add_argument("--node", required=True, help="name of the Node")
    options.add_argument("--seconds", type=float, required=True, help="after which it ends")
    given = options.parse_args()
    try:
        credentials = parse(Path(given.kubeconfig).read_bytes(), given.kubeconfig.parent)
    except (OSError, ValueError) as error:
        log.warning("cannot renew the Lease", kubeconfig=str(given.kubeconfig), error=str(error))
        return 0
    count = keep(LeaseApi(credentials=credentials, node=given.node), given.seconds)
    log.info("ended", node=given.node, renewed=count)
    return 0


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(main())
