"""What a restart of containerd is known to cost, by its unit, its version, and the shims that it has to reach again."""

import re
from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.runtime import RestartHazards, RuntimeAtWork

SHIM_SECONDS = 2.5
"""Half of what containerd waits for a shim when it starts (io.containerd.timeout.shim.load, 5 s)."""

# Versions, first and last, that do harm when they are restarted, and what harm.
UNRESTARTABLE = (
    ((1, 6, 9), (1, 6, 13), "forgets the addresses of pods when it is restarted (#7843), so any kubelet replaces them"),
    ((2, 0, 0), (2, 0, 5), "may not start again after a restart (#10848)"),
    ((2, 1, 0), (2, 1, 3), "may not start again after a restart (#10848)"),
)
SPARING = frozenset({"process", "none"})
"""Kill modes that leave alone what is not the main process: shims are in the unit's cgroup."""


def find(seen: RuntimeAtWork) -> RestartHazards:
    """Everything that is known."""
    return RestartHazards(
        unit=tuple(_shims_outlive_the_unit(seen)),
        pods=tuple(_pods_have_one_shim(seen.inventory)),
        runtime=(*_version_survives_restarts(seen), *_shims_answer(seen)),
    )


def _shims_outlive_the_unit(seen: RuntimeAtWork) -> Iterator[Finding]:
    unit = seen.unit
    if unit.kill_mode not in SPARING:
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, so restarting it would kill every container; "
            "set KillMode=process"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _pods_have_one_shim(inventory: Inventory) -> Iterator[Finding]:
    """Every container is looked after by the shim of its sandbox, where shims look after whole pods.

    A containerd that cannot reach a sandbox's shim within 100 ms starts another one for the container, and takes the
    first one's socket away. Such a pod runs well until containerd is restarted, which then kills it.
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
    for first, last, harm in UNRESTARTABLE:
        if first <= version <= last:
            detail = f"{seen.info.name} {seen.info.version} {harm}; upgrade it first"
            yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _shims_answer(seen: RuntimeAtWork) -> Iterator[Finding]:
    """Every pod's shim answers, and soon: to list its tasks, containerd asks every shim.

    A shim that does not answer within 5 s of containerd's start is taken for dead, and its containers are killed.
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
    """``1.6.20~ds1`` as numbers, as far as it has them."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()
