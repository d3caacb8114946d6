"""What ended while a new kubelet settled in: was it the kubelet, or something that would have happened anyway?

From the outside a container that a kubelet replaces looks like one that crashed, or one whose pod somebody deleted.
They are told apart by evidence, never by likelihood, and whatever is not proven counts as the kubelet's doing:

* *It ended by itself.* Every way in which a kubelet ends a container goes through a request to the runtime
  (StopContainer, StopPodSandbox), and the runtime logs each request before it acts. So: the runtime's log is whole and
  says enough, no such request is in it, the sandbox stands, and the exit code is not that of a SIGKILL. (The kernel
  kills for want of memory, which a kubelet may cause by a smaller limit for all pods; and so does a runtime that lost
  track of a container.)
* *Its pod was deleted.* The API server says so: the pod has a deletionTimestamp. A pod that the kubelet itself gave up
  gets one too in the end, from its controller, but it carries a reason in its status first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.node.evidence.verification import Difference, DifferenceKind
from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState, Inventory
from nodeupgrade.domain.node.plan import RunPlan

KILLED = frozenset({137, 255})
"""Exit codes that prove nothing: of a SIGKILL, and of a container that the runtime lost."""
BY_TAINT = "DeletionByTaintManager"
"""An eviction that a node gets which was away for too long; a kubelet that did not come back may be the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known beside the inventory.

    Attributes:
        asked: containers and sandboxes that the runtime was asked to stop since it was started; ``None`` if its log
            cannot be relied on.
        deleted: pods that somebody deleted, by the word of the API server.
    """

    asked: frozenset[str] | None = None
    deleted: frozenset[PodUid] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """Differences, divided.

    Attributes:
        damage: what has to be taken for the kubelet's doing.
        ended: what ended by itself, or with its pod; harmless.
    """

    damage: tuple[Difference, ...]
    ended: tuple[Difference, ...] = ()


def divide(plan: RunPlan, now: Inventory, found: Iterable[Difference], evidence: Evidence) -> Departures:
    """Say of each difference whether the kubelet may have caused it."""
    damage: list[Difference] = []
    ended: list[Difference] = []
    for difference in found:
        excused = difference.pod.uid in evidence.deleted or _ended_by_itself(plan, now, difference, evidence)
        (ended if excused else damage).append(difference)
    return Departures(damage=tuple(damage), ended=tuple(ended))


def may_be_harmless(plan: RunPlan, now: Inventory, damage: Iterable[Difference]) -> bool:
    """Whether somebody has yet to speak, and all of it may then turn out to be harmless.

    The runtime has to say how an instance ended whose process is gone, and the API server whether the pod was deleted
    of which something ended. A kubelet that does not recognise a container makes another at once, and one that rejects
    pods rejects several; it is not waited for word from the API server in either case.
    """
    told = [difference for difference in damage if difference.kind is not DifferenceKind.ENDING]
    pods = {difference.pod.uid for difference in told}
    if len(pods) > 1 or any(difference.kind is DifferenceKind.RESTARTED for difference in told):
        return False
    known = {container.id for container in plan.baseline.containers}
    return not any(c.pod.uid in pods and c.id not in known for c in now.containers)


def was_deleted(pod: Json) -> bool:
    """Whether somebody deleted this pod, rather than that a kubelet or the node's absence put an end to it."""
    status = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    return (
        bool((pod.get("metadata") or {}).get("deletionTimestamp"))
        and not status.get("reason")
        and not any(c.get("type") == "DisruptionTarget" and c.get("reason") == BY_TAINT for c in conditions)
    )


def _ended_by_itself(plan: RunPlan, now: Inventory, difference: Difference, evidence: Evidence) -> bool:
    if (
        difference.container is None
        or difference.kind not in {DifferenceKind.STOPPED, DifferenceKind.RESTARTED}
        or evidence.asked is None
    ):
        return False
    before = plan.baseline.container(difference.container)
    if before is None or {before.id, before.sandbox_id} & evidence.asked:
        return False
    sandbox = now.sandbox(before.sandbox_id)
    remains = _remains(before, now)
    return (
        sandbox is not None
        and sandbox.ready
        and bool(remains)
        and not any(c.id in evidence.asked or c.exit_code is None or c.exit_code in KILLED for c in remains)
    )


def _remains(before: ContainerInstance, now: Inventory) -> list[ContainerInstance]:
    """The ended instances of a container. A kubelet keeps the last only, so the very first may be gone already."""
    return [
        c
        for c in now.containers
        if (c.sandbox_id, c.name, c.state) == (before.sandbox_id, before.name, ContainerState.EXITED)
        and c.created_at >= before.created_at
    ]
