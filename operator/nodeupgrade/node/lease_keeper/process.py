"""Renews the node's Lease while no kubelet does: ``python -m nodeupgrade.node.lease_keeper.process``, by systemd.

The control plane marks a node NotReady, and removes its pods from all Services, if its Lease is not renewed for 40 s
(50 s from 1.32 on). The containers run all the time, so this process renews the Lease with the kubelet's own
credentials until the kubelet-down budget is spent; a longer hold starts it again. A program that prints the
credentials runs here too, from before the kubelet is stopped. The process is separate from the executor, which has no
credentials and must not depend on it.
"""

import argparse
import sys
from pathlib import Path, PurePosixPath

import structlog

from nodeupgrade.logs import log_to_stderr
from nodeupgrade.node.lease_keeper.renewal import renew
from nodeupgrade.node.lease_keeper.wiring import lease_of

log = structlog.get_logger()


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
