"""Known hazards of restarting dockerd: its unit, its settings, and containers that have lost their shim."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.runtimes.cri.restart_hazards import killed_with_unit
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import Inventory


def find_hazards(seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=killed_with_unit(seen.unit),
        pods=tuple(_containers_have_shims(seen.inventory)),
        runtime=tuple(
            Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=f"{seen.info.name} {seen.info.version}: {objection}")
            for objection in seen.info.objections
        ),
    )


def _containers_have_shims(inventory: Inventory) -> Iterator[Finding]:
    """A container without its shim is one that dockerd cannot find again after its restart."""
    for container in inventory.running():
        if container.process is None or container.monitor is None:
            detail = (
                "it runs, but its shim does not, so that dockerd would consider it dead after a restart; "
                "delete the pod first"
            )
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)
