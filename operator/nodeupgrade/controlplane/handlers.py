"""The kopf handlers: start-up, clean-up, login, and NodeUpgrade events.

kopf is the operator's frame: it watches NodeUpgrades, answers the probes and handles signals. Handlers neither store
state in kopf nor write through it, so kopf leaves no finalizers and no annotations on any object.
"""

from typing import Any

import kopf

from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.controlplane.manager import Manager
from nodeupgrade.errors import NodeUpgradeError


def registry(manager: Manager) -> kopf.OperatorRegistry:
    """Register the handlers."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(id="start", registry=handlers)
    async def start(**_: Any) -> None:
        try:
            await manager.start()
        except (NodeUpgradeError, OSError) as error:
            manager.refusal = error
            # Do not retry here: the process exits, and its Deployment starts it again.
            raise kopf.PermanentError(str(error)) from error

    @kopf.on.cleanup(id="stop", registry=handlers)
    async def stop(**_: Any) -> None:
        await manager.stop()

    @kopf.on.login(id="login", registry=handlers)
    async def login(**_: Any) -> kopf.AiohttpSession | None:
        """Give kopf our client's session. kopf asks again only if that was rejected, and there is no other."""
        session = manager.log_in()
        return None if session is None else kopf.AiohttpSession(server=session.server, aiohttp_session=session.http)

    # Raw events only: they are cheap and stateless. The resync makes up for missed ones.
    @kopf.on.event(UPGRADES.group, UPGRADES.version, UPGRADES.plural, id="changed", registry=handlers)
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        manager.upgrade_changed(dict(event["object"]), deleted=event["type"] == "DELETED")

    return handlers


def settings() -> kopf.OperatorSettings:
    """Configure kopf: one kind, one replica, no traces in the cluster, and retries for some minutes."""
    tuned = kopf.OperatorSettings()
    tuned.peering.standalone = True
    tuned.scanning.disabled = True
    tuned.posting.enabled = False
    tuned.watching.server_timeout = 290
    tuned.watching.client_timeout = 320
    tuned.watching.connect_timeout = 10
    tuned.networking.connect_timeout = 10
    tuned.networking.request_timeout = 30
    # An API server that restarts or has lost its etcd answers 5xx for a while. Our own restart would cost it full
    # lists.
    tuned.networking.error_backoffs = (1, 2, 4, 8, 15, *[30] * 7)
    tuned.networking.enforce_retry_after = True
    tuned.process.ultimate_exiting_timeout = 60
    return tuned
