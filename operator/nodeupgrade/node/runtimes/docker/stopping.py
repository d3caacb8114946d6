"""Stops dockerd, once it reports that containers survive that."""

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.runtimes.docker.client import Document
from nodeupgrade.node.runtimes.docker.next_start import SOCKET_UNIT, UNIT
from nodeupgrade.node.runtimes.docker.restart_hazards import LIVE_RESTORE_OFF


def units(services: ServiceManager) -> tuple[str, ...]:
    """Return the socket, if dockerd has one that systemd opens, and the service."""
    has_socket = services.status(SOCKET_UNIT).load_state == "loaded"
    return (SOCKET_UNIT, UNIT) if has_socket else (UNIT,)


def stop(services: ServiceManager, info: Document | None) -> None:
    """Stop dockerd and the socket that would start it again, once it reports that containers survive that.

    Args:
        services: of the node.
        info: dockerd's answer to ``/info``; ``None`` if it does not run.

    Raises:
        StepFailed: it would end containers, or does not stop.
    """
    if info is not None and info.get("LiveRestoreEnabled") is not True:
        raise StepFailed(f"dockerd was not stopped: {LIVE_RESTORE_OFF}")
    # A service that requires the socket is stopped with it. An automatic restart may be pending all the same.
    for unit in units(services):
        services.stop(unit)
