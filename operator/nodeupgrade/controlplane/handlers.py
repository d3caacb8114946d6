"""What kopf is told: watch NodeUpgrades, say which changed, and never give up."""

import asyncio
import os
import random
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kopf

from nodeupgrade.ports.kube import UPGRADES

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_LIFETIME = timedelta(minutes=10)
"""How long a token is used before the file is read again; the kubelet renews it long before it expires."""

PROBE_SECONDS = 4.0
"""How long the loop that does the work may take to answer the liveness probe."""


class EndlessBackoff:
    """Delays in seconds, with jitter, that never run out: an API server may be away for a long time."""

    def __iter__(self) -> Iterator[float]:
        """Start again with short delays."""
        ceiling = 1.0
        while True:
            yield ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
            ceiling = min(30.0, ceiling * 2)


class ClusterConnection(kopf.ConnectionInfo):
    """Verifies the API server against the cluster's authority, also where that authority is an old one.

    Python 3.13 and later refuse authorities without a subject key identifier, such as kubeadm made for years.
    """

    def as_ssl_context(self) -> ssl.SSLContext:
        """Verify chain and host name as always, without the newer strictness about extensions."""
        context = super().as_ssl_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def registry(heard: Callable[[str], None], worker: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """Build the handlers.

    Args:
        heard: Hears the name of every NodeUpgrade that changed.
        worker: The loop in which the work is done; the liveness probe fails when it hangs.
    """
    handlers = kopf.OperatorRegistry()

    # Only raw events: they cost nothing and carry no state. Whatever is missed, the resync finds.
    @kopf.on.event(UPGRADES.group, UPGRADES.version, UPGRADES.plural, registry=handlers)
    async def changed(name: str | None, **_: Any) -> None:
        if name is not None:
            heard(name)

    @kopf.on.probe(id="worker", registry=handlers)
    async def alive(**_: Any) -> bool:
        turn = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, result=True), worker))
        return await asyncio.wait_for(turn, PROBE_SECONDS)

    @kopf.on.login(registry=handlers)
    async def login(logger: Any, **kwargs: Any) -> kopf.ConnectionInfo | None:
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        if host is None or "KUBECONFIG" in os.environ:
            return kopf.login_with_kubeconfig(logger=logger, **kwargs)
        return in_cluster(host, os.environ.get("KUBERNETES_SERVICE_PORT", "443"))

    return handlers


def in_cluster(host: str, port: str) -> kopf.ConnectionInfo:
    """Log in with the pod's projected token, to be read anew after a while."""
    address = f"[{host}]" if ":" in host else host
    return ClusterConnection(
        server=f"https://{address}:{port}",
        ca_path=str(SERVICE_ACCOUNT / "ca.crt"),
        scheme="Bearer",
        token=(SERVICE_ACCOUNT / "token").read_text(encoding="utf-8").strip(),
        expiration=datetime.now(UTC) + TOKEN_LIFETIME,
    )


def settings() -> kopf.OperatorSettings:
    """Tune kopf for one job: tell us promptly and survive anything."""
    chosen = kopf.OperatorSettings()
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.posting.enabled = False
    chosen.watching.server_timeout = 290
    chosen.watching.client_timeout = 320
    chosen.watching.connect_timeout = 10
    chosen.networking.connect_timeout = 10
    chosen.networking.request_timeout = 30
    chosen.networking.error_backoffs = EndlessBackoff()
    chosen.networking.enforce_retry_after = True
    chosen.execution.max_workers = 4
    chosen.process.ultimate_exiting_timeout = None  # it would be the end of us all
    return chosen
