"""The extension's entry point: ``python -m nodeupgrade.capi``."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import structlog

from nodeupgrade.capi.extension import Extension
from nodeupgrade.capi.rollouts import Rollouts, RolloutsError, read_rollouts
from nodeupgrade.capi.server import Certificate, served
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.logs import log_to_stderr

_log = structlog.get_logger(__name__)

PORT = 9443
REQUEST_SECONDS = 8.0
"""Cluster API waits for ten seconds, and asks again."""


async def run(environment: Mapping[str, str]) -> None:
    """Serve until SIGTERM or SIGINT.

    The environment has the paths ROLLOUTS, CERTIFICATES, KUBECONFIG and MACHINES_KUBECONFIG; without the latter,
    Machines are read where the nodes are.
    """
    path = Path(environment.get("ROLLOUTS", "/etc/nodeupgrade-capi/rollouts.yaml"))
    certificate = Certificate(Path(environment.get("CERTIFICATES", "/etc/nodeupgrade-capi-tls")))
    own, management = (environment.get(name) for name in ("KUBECONFIG", "MACHINES_KUBECONFIG"))
    patience = Patience(request_seconds=REQUEST_SECONDS, retry_seconds=REQUEST_SECONDS)

    def rollouts() -> Rollouts:
        """Read the file for every request: a kubelet that is added to it needs no restart."""
        try:
            return read_rollouts(path.read_bytes())
        except OSError as error:
            raise RolloutsError(f"cannot read the file of rollouts: {error}") from error

    rollouts()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        kube = await stack.enter_async_context(KubeClient.open(Path(own) if own else None, patience=patience))
        machines = kube
        if management:
            machines = await stack.enter_async_context(KubeClient.open(Path(management), patience=patience))
        extension = Extension(kube, machines, rollouts, lambda: datetime.now(UTC))
        port = await stack.enter_async_context(
            served(extension, certificate, "0.0.0.0", int(environment.get("PORT", PORT)))  # noqa: S104 - a pod's network
        )
        _log.info("extension_started", port=port)
        await stop.wait()


def main() -> int:
    """Run the extension; return 0 after a normal stop, 1 if it cannot start."""
    log_to_stderr()
    logging.captureWarnings(capture=True)
    try:
        asyncio.run(run(os.environ))
    except (NodeUpgradeError, OSError, ValueError) as error:
        _log.error("extension_start_failed", error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
