"""Verify that nothing restarted: compare two inventories, and return the differences.

Nothing here relies on restart counts: they stay at zero when a kubelet replaces a whole pod. An instance is the same if
its id, attempt, creation and start times, its process (PID *and* start time) and its monitor are.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from nodeupgrade.api.values import ContainerId, PodRef, SandboxId
from nodeupgrade.node.plan.plan import PlannedContainer, RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, SandboxInstance

SANDBOX = " (sandbox)"
_CONTAINER = {"attempt": "attempt", "created": "created_at", "started": "started_at", "process": "process"}
_SANDBOX = {"attempt": "attempt", "created": "created_at", "process": "process", "address": "ip"}
"""The identity of an instance: by name in messages, the field."""

T = TypeVar("T", ContainerInstance, SandboxInstance)


class DifferenceKind(StrEnum):
    """What happened to an instance.

    ENDING: its process is gone, but the runtime has not reported yet how it ended; usually for a moment.
    """

    RESTARTED = "restarted"
    GONE = "gone"
    STOPPED = "stopped"
    ENDING = "ending"
    CHANGED = "changed"
    MONITOR_LOST = "monitor lost"
    APPEARED = "appeared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One instance that changed."""

    kind: DifferenceKind
    label: str
    detail: str
    pod: PodRef
    # id of the container that changed; None for sandboxes, and for containers that appeared
    container: ContainerId | None = None

    def __str__(self) -> str:
        return f"{self.label} {self.kind}: {self.detail}"


def unplanned(plan: RunPlan, now: Inventory, stopped: Container[str] = frozenset()) -> tuple[Difference, ...]:
    """Return the differences between the plan's baseline and the present inventory that the plan does not permit.

    A container that was ``stopped`` did not complete: many programs exit with 0 if they are asked to stop.
    """
    may_complete = [c.id for c in plan.containers if c.may_complete and c.id not in stopped]
    return differences(plan.watched(), now, may_complete=may_complete)


def differences(
    before: Inventory, after: Inventory, *, may_complete: Iterable[ContainerId] = ()
) -> tuple[Difference, ...]:
    """Compare two inventories.

    Only instances that were alive before count: dead ones may be garbage-collected at any time, and pods that start
    afterwards are not damage. Containers that ``may_complete`` may have exited with code 0.
    """
    free = frozenset(may_complete)
    containers = {c.id: c for c in after.containers}
    sandboxes = {s.id: s for s in after.sandboxes}
    monitors = {s.id: s.monitor for s in before.sandboxes}
    completed_pods = _completed_pods(before, containers, free)
    namesakes: dict[tuple[str, ...], list[ContainerInstance]] = {}
    for container in after.containers:
        namesakes.setdefault(_place(container), []).append(container)
    found = [
        *(
            d
            for c in before.running()
            for d in _container(
                c,
                containers.get(c.id),
                _successor(c, namesakes.get(_place(c), ())),
                free,
                own_monitor=c.monitor != monitors.get(c.sandbox_id),
            )
        ),
        *(
            d
            for s in before.sandboxes
            if s.ready and s.id not in completed_pods
            for d in _sandbox(s, sandboxes.get(s.id))
        ),
    ]
    return tuple(found)


def consistent(first: Iterable[Difference], second: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the differences that two successive inventories confirm.

    That an instance ended or was replaced is certain at once. That one is absent or lacks something may be a momentary
    gap in the runtime's answer, so it must be seen twice.
    """
    before = {(d.kind, d.label) for d in first}
    return tuple(
        d for d in second if d.kind in {DifferenceKind.STOPPED, DifferenceKind.RESTARTED} or (d.kind, d.label) in before
    )


def affected(found: Iterable[str]) -> tuple[str, ...]:
    """Return the labels without duplicates; a sandbox only if none of its containers is among them."""
    labels = dict.fromkeys(found)
    containers = [label for label in labels if not label.endswith(SANDBOX)]
    named = {label.rpartition("/")[0] for label in containers}
    alone = [label for label in labels if label.endswith(SANDBOX) and label.removesuffix(SANDBOX) not in named]
    return (*containers, *alone)


def appeared(before: Inventory, after: Inventory, *, planned: Iterable[PlannedContainer]) -> tuple[Difference, ...]:
    """Return the containers that run, or are about to, and are not in the plan."""
    known = {c.id for c in planned} | {c.id for c in before.containers}
    return tuple(
        Difference(kind=DifferenceKind.APPEARED, label=c.label, detail=f"container {c.id[:12]} is {c.state}", pod=c.pod)
        for c in after.containers
        if c.id not in known and c.state is not ContainerState.EXITED
    )


def hash_differences(planned: Iterable[PlannedContainer], now: Inventory) -> tuple[Difference, ...]:
    """Return the running containers for which the runtime does not serve the planned hash."""
    served = {c.id: c for c in now.containers}
    return tuple(
        Difference(
            kind=DifferenceKind.CHANGED,
            label=p.label,
            detail=f"serves {have}, planned {p.after.container}",
            pod=p.pod,
            container=p.id,
        )
        for p in planned
        if p.id in served
        and served[p.id].state is ContainerState.RUNNING
        and (have := served[p.id].hashes.container) != p.after.container
    )


def _completed_pods(
    before: Inventory, after: dict[ContainerId, ContainerInstance], free: frozenset[ContainerId]
) -> frozenset[SandboxId]:
    alive: dict[SandboxId, list[bool]] = {}
    for container in before.running():
        alive.setdefault(container.sandbox_id, []).append(_completed(container, after.get(container.id), free))
    return frozenset(sandbox for sandbox, completed in alive.items() if all(completed))


def completed(plan: RunPlan, now: Inventory) -> frozenset[ContainerId]:
    """Return the containers that have exited with code 0, and may."""
    free = frozenset(c.id for c in plan.containers if c.may_complete)
    after = {c.id: c for c in now.containers}
    return frozenset(c.id for c in plan.watched().running() if _completed(c, after.get(c.id), free))


def _completed(before: ContainerInstance, after: ContainerInstance | None, free: frozenset[ContainerId]) -> bool:
    return before.id in free and after is not None and after.state is ContainerState.EXITED and after.exit_code == 0


def _container(
    before: ContainerInstance,
    after: ContainerInstance | None,
    successor: ContainerInstance | None,
    free: frozenset[ContainerId],
    *,
    own_monitor: bool,
) -> Iterator[Difference]:
    """Compare one container; a monitor that supervises the whole pod is compared with its sandbox."""

    def different(kind: DifferenceKind, detail: str) -> Difference:
        return Difference(kind=kind, label=before.label, detail=detail, pod=before.pod, container=before.id)

    if successor is not None:
        yield different(DifferenceKind.RESTARTED, f"{before.id[:12]} was replaced by {successor.id[:12]}")
    elif _completed(before, after, free):
        return
    elif after is None:
        yield different(DifferenceKind.GONE, f"{before.id[:12]} is gone")
    elif after.state is not ContainerState.RUNNING:
        detail = f"{before.id[:12]} is {after.state}" + (
            "" if after.exit_code is None else f", exit code {after.exit_code}"
        )
        yield different(DifferenceKind.STOPPED, detail)
    elif before.process is not None and after.process is None:
        yield different(DifferenceKind.ENDING, f"process {before.process} is gone")
    else:
        if own_monitor and before.monitor is not None and before.monitor != after.monitor:
            yield different(DifferenceKind.MONITOR_LOST, f"{before.monitor} became {after.monitor}")
        yield from (different(DifferenceKind.CHANGED, detail) for detail in _changed(before, after, _CONTAINER))


def _place(container: ContainerInstance) -> tuple[str, ...]:
    """Return what a container has in common with what replaces it; a static pod's UID may differ."""
    return container.pod.namespace, container.pod.name, container.name


def _successor(before: ContainerInstance, namesakes: Iterable[ContainerInstance]) -> ContainerInstance | None:
    """Return the container that replaced this one."""
    return next((c for c in namesakes if c.id != before.id and c.created_at > before.created_at), None)


def _sandbox(before: SandboxInstance, after: SandboxInstance | None) -> Iterator[Difference]:
    def different(kind: DifferenceKind, detail: str) -> Difference:
        return Difference(kind=kind, label=f"{before.pod}{SANDBOX}", detail=detail, pod=before.pod)

    if after is None:
        yield different(DifferenceKind.GONE, f"{before.id[:12]} is gone")
        return
    if not after.ready:
        yield different(DifferenceKind.STOPPED, f"{before.id[:12]} is not ready")
        return
    if before.process is not None and after.process is None:  # by which its monitor is known
        yield different(DifferenceKind.ENDING, f"process {before.process} is gone")
    elif before.monitor is not None and before.monitor != after.monitor:
        yield different(DifferenceKind.MONITOR_LOST, f"{before.monitor} became {after.monitor}")
    yield from (different(DifferenceKind.CHANGED, detail) for detail in _changed(before, after, _SANDBOX))


def _changed(before: T, after: T, identity: Mapping[str, str]) -> Iterator[str]:
    """Compare the fields of an identity; those that either inventory does not have are ignored."""
    for name, attribute in identity.items():
        value, other = getattr(before, attribute), getattr(after, attribute)
        if value is not None and other is not None and value != other:
            yield f"{name} was {value}, is {other}"
