"""Known hazards of restarting containerd: its unit, its version, and shims that it may fail to reconnect to."""

import re
from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.runtime import RestartHazards, RuntimeAtWork

SHIM_SECONDS = 2.5
"""Half the time that a starting containerd waits for a shim (io.containerd.timeout.shim.load, 5 s)."""

# Ranges of versions (first, last) that must not be restarted, with the consequence.
UNRESTARTABLE = (
    ((1, 6, 9), (1, 6, 13), "forgets the addresses of pods when it is restarted (#7843), so any kubelet replaces them"),
    ((2, 0, 0), (2, 0, 5), "may not start again after a restart (#10848)"),
    ((2, 1, 0), (2, 1, 3), "may not start again after a restart (#10848)"),
)
SAFE_KILL_MODES = frozenset({"process", "none"})
"""Kill modes that spare all but the main process. Shims are in the unit's cgroup."""


def find(seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=tuple(_shims_outlive_the_unit(seen)),
        pods=tuple(_pods_have_one_shim(seen.inventory)),
        runtime=(*_version_survives_restarts(seen), *_shims_answer(seen)),
    )


def _shims_outlive_the_unit(seen: RuntimeAtWork) -> Iterator[Finding]:
    unit = seen.unit
    if unit.kill_mode not in SAFE_KILL_MODES:
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, so restarting it would kill every container; "
            "set KillMode=process"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _pods_have_one_shim(inventory: Inventory) -> Iterator[Finding]:
    """Every container is served by the shim of its sandbox, where shims serve whole pods.

    A containerd that cannot reach a sandbox's shim within 100 ms starts a second one for the container, and the
    first one loses its socket. Such a pod runs well until containerd is restarted, which kills it.
    """
    for container in inventory.running():
        sandbox = inventory.sandbox(container.sandbox_id)
        if container.monitor is None or sandbox is None or sandbox.monitor in {None, container.monitor}:
            continue
        detail = (
            "it has a shim of its own beside that of its pod, so any restart of the runtime would kill the pod "
            f"(process {container.monitor.pid}); delete the pod first"
        )
        yield Finding(reason=Reason.POD_HAS_TWO_MONITORS, subject=container.label, detail=detail)


def _version_survives_restarts(seen: RuntimeAtWork) -> Iterator[Finding]:
    version = _numbers(seen.info.version)
    for first, last, consequence in UNRESTARTABLE:
        if first <= version <= last:
            detail = f"{seen.info.name} {seen.info.version} {consequence}; upgrade it first"
            yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _shims_answer(seen: RuntimeAtWork) -> Iterator[Finding]:
    """Every pod's shim answers in time. Listing tasks measures that, since containerd asks every shim.

    A starting containerd considers a shim dead that does not answer within 5 s, and kills its containers.
    """
    if seen.listing_seconds > SHIM_SECONDS:
        detail = (
            f"{seen.info.name} took {seen.listing_seconds:.1f} s to list its tasks, more than {SHIM_SECONDS} s: "
            "the node is too busy for a restart of the runtime, which kills containers whose shims answer too late"
        )
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)
    for container in seen.inventory.running():
        if container.process is None:
            detail = "it runs, but nobody knows its process: its shim does not answer, and a restart would kill it"
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``(1, 6, 20)`` for ``1.6.20~ds1``."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()
