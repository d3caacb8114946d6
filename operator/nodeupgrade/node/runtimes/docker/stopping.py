"""What stops dockerd, once it says that this costs no container; and what else it says against a restart."""

from collections.abc import Iterator

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.runtimes.docker.client import Document
from nodeupgrade.node.runtimes.docker.next_start import SOCKET_UNIT, UNIT

OLDEST = (18, 9)
LIVE_RESTORE_OFF = (
    "live-restore is not in effect, so stopping it would end every container; set live-restore to true in its "
    "daemon.json, reload the unit, and restart it once at a time of your choice"
)


def units(services: ServiceManager) -> tuple[str, ...]:
    """Return the socket, if dockerd has one that systemd opens, and the service."""
    has_socket = services.status(SOCKET_UNIT).load_state == "loaded"
    return (SOCKET_UNIT, UNIT) if has_socket else (UNIT,)


def stop(services: ServiceManager, info: Document | None) -> None:
    """Stop dockerd and the socket that would start it again, once it says that this costs no container.

    Args:
        services: of the node.
        info: what dockerd says of itself; ``None`` if it does not run.

    Raises:
        StepFailed: it would end containers, or does not stop.
    """
    if info is not None:
        require_live_restore(info)
    # A service that requires the socket is stopped with it. An automatic restart may be pending all the same.
    for unit in units(services):
        services.stop(unit)


def require_live_restore(info: Document) -> None:
    """Check that containers survive the end of dockerd.

    Raises:
        StepFailed: they would not.
    """
    if info.get("LiveRestoreEnabled") is not True:
        raise StepFailed(f"dockerd was not stopped: {LIVE_RESTORE_OFF}")


def objections(info: Document, version: tuple[int, ...]) -> Iterator[str]:
    """Yield what speaks against a restart of this dockerd."""
    if info.get("LiveRestoreEnabled") is not True:
        yield LIVE_RESTORE_OFF
    swarm = info.get("Swarm")
    state = swarm.get("LocalNodeState", "") if isinstance(swarm, dict) else ""
    if state not in {"", "inactive"}:
        yield f"it belongs to a swarm ({state}), whose containers do not survive a restart; leave the swarm"
    if version[:2] < OLDEST:
        yield f"it is older than {OLDEST[0]}.{OLDEST[1]:02}, and nobody has tried whether it keeps its containers"
