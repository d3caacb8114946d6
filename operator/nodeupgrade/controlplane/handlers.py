"""What kopf calls: start-up and clean-up, login, and every event of a NodeUpgrade.

kopf is the frame of the operator: it watches NodeUpgrades, answers the probes and listens to signals. No handler
keeps anything in kopf or writes anything through it, so kopf leaves no finalizer and no annotation on any object.
"""

from typing import Any

import kopf

from nodeupgrade.controlplane.manager import Manager
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.ports.kube import UPGRADES


def registry(manager: Manager) -> kopf.OperatorRegistry:
    """Register the handlers."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.startup(id="start", registry=handlers)
    async def start(**_: Any) -> None:
        try:
            await manager.start()
        except (NodeUpgradeError, OSError) as error:
            manager.refusal = error
            # Not tried again in here: the process ends, and its Deployment tries again.
            raise kopf.PermanentError(str(error)) from error

    @kopf.on.cleanup(id="stop", registry=handlers)
    async def stop(**_: Any) -> None:
        await manager.stop()

    @kopf.on.login(id="login", registry=handlers)
    async def login(**_: Any) -> kopf.AiohttpSession | None:
        """Let kopf speak as our client does. It asks again only once that was rejected; then there is nothing else."""
        session = manager.log_in()
        return None if session is None else kopf.AiohttpSession(server=session.server, aiohttp_session=session.http)

    # Only raw events: they cost nothing and carry no state. Whatever is missed, the resync finds.
    @kopf.on.event(UPGRADES.group, UPGRADES.version, UPGRADES.plural, id="changed", registry=handlers)
    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        manager.upgrade_changed(dict(event["object"]), deleted=event["type"] == "DELETED")

    return handlers


def settings() -> kopf.OperatorSettings:
    """Tune kopf: one kind, one replica, no traces in the cluster, and patience of some minutes with the API server."""
    chosen = kopf.OperatorSettings()
    chosen.peering.standalone = True
    chosen.scanning.disabled = True
    chosen.posting.enabled = False
    chosen.watching.server_timeout = 290
    chosen.watching.client_timeout = 320
    chosen.watching.connect_timeout = 10
    chosen.networking.connect_timeout = 10
    chosen.networking.request_timeout = 30
    # An API server that is restarted or looks for its etcd answers 5xx for a while; starting anew costs it full lists.
    chosen.networking.error_backoffs = (1, 2, 4, 8, 15, *[30] * 7)
    chosen.networking.enforce_retry_after = True
    chosen.process.ultimate_exiting_timeout = 60
    return chosen
