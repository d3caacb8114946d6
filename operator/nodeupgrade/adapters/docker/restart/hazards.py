"""Known hazards of restarting dockerd: its unit, its settings, and containers that have lost their shim."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.runtime import RestartHazards, RuntimeAtWork

SAFE_KILL_MODES = frozenset({"process", "none"})
"""Kill modes that spare all but the main process. containerd and the shims may be in the unit's cgroup."""


def find(seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=tuple(_only_dockerd_is_stopped(seen)),
        pods=tuple(_containers_have_shims(seen.inventory)),
        runtime=tuple(
            Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=f"{seen.info.name} {seen.info.version}: {objection}")
            for objection in seen.info.objections
        ),
    )


def _only_dockerd_is_stopped(seen: RuntimeAtWork) -> Iterator[Finding]:
    unit = seen.unit
    if unit.kill_mode not in SAFE_KILL_MODES:
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, so that stopping it may kill every container; "
            "set KillMode=process"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _containers_have_shims(inventory: Inventory) -> Iterator[Finding]:
    """A container without its shim is one that dockerd cannot find again after its restart."""
    for container in inventory.running():
        if container.process is None or container.monitor is None:
            detail = (
                "it runs, but its shim does not, so that dockerd would consider it dead after a restart; "
                "delete the pod first"
            )
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)
