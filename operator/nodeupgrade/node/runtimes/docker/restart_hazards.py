"""Known hazards of restarting dockerd: its unit, its settings, and containers that have lost their shim."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.runtimes.cri.restart_hazards import unit_hazards
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.docker.client import Document
from nodeupgrade.node.runtimes.inventory import Inventory

OLDEST = (18, 9)
LIVE_RESTORE_OFF = (
    "live-restore is not in effect, so stopping it would end every container; set live-restore to true in its "
    "daemon.json, reload the unit, and restart it once at a time of your choice"
)


def find_hazards(seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=unit_hazards(seen.unit),
        pods=tuple(_containers_have_shims(seen.inventory)),
        runtime=tuple(
            Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=f"{seen.info.name} {seen.info.version}: {objection}")
            for objection in seen.info.objections
        ),
    )


def _containers_have_shims(inventory: Inventory) -> Iterator[Finding]:
    """Dockerd cannot find a container without its shim again after its restart."""
    for container in inventory.running():
        if container.process is None or container.monitor is None:
            detail = (
                "it runs, but its shim does not, so dockerd would consider it dead after a restart; "
                "delete the pod first"
            )
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


def objections(info: Document, version: tuple[int, ...]) -> Iterator[str]:
    """Yield the reasons against a restart of this dockerd, from its answer to ``/info`` and its version."""
    if info.get("LiveRestoreEnabled") is not True:
        yield LIVE_RESTORE_OFF
    swarm = info.get("Swarm")
    state = swarm.get("LocalNodeState", "") if isinstance(swarm, dict) else ""
    if state not in {"", "inactive"}:
        yield f"it belongs to a swarm ({state}), whose containers do not survive a restart; leave the swarm"
    if version[:2] < OLDEST:
        yield f"it is older than {OLDEST[0]}.{OLDEST[1]:02}, and it is unproven whether its containers survive"
