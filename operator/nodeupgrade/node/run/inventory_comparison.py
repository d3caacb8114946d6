"""Compare the runtime's inventory with the plan's, up to the start of the new kubelet.

Containers that ended with the runtime (see docs/decisions/runtime-clients.md) are recorded in the journal before the
new kubelet starts: it starts them again, and then they look like containers that it has replaced.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.kubelet_log import read_log
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from nodeupgrade.node.verification.ended_containers import (
    Departures,
    divide_without_kubelet,
    is_expected_to_end,
    may_be_in_crash_loop,
)
from nodeupgrade.node.verification.verification import Difference, DifferenceKind, affected, appeared, unplanned

PENDING_LOOK_SECONDS = 0.05
"""How often to look again while a process is gone and the runtime has yet to report how its container ended."""
MISSED_SECONDS = 1.5
"""How long a runtime that has started may take to report the end of a container, before it counts as missed."""
ENDED = "ended"


def compare(
    node: Node, plan: RunPlan, *, of: frozenset[PodUid] = frozenset(), addresses: bool = False
) -> tuple[Inventory, tuple[Difference, ...]]:
    """Return the present inventory, and how it differs from the plan's baseline.

    Process and start time identify an instance, so details, such as the exit code of a container that completed
    meanwhile, are requested only of pods in which something differs, and ``of`` these: all others would be asked at
    every look, also while no kubelet runs.
    """
    asked = of
    while True:
        now = node.runtime.inventory(of=asked, addresses=addresses)
        found = unplanned(plan, now)
        if (differing := frozenset(each.pod.uid for each in found)) <= asked:
            return now, found
        asked |= differing


def _settled(
    node: Node, plan: RunPlan, *, addresses: bool = False, seconds: float = EXCUSE_SECONDS
) -> tuple[Inventory, tuple[Difference, ...]]:
    """Compare, and give the runtime a moment to report how what has no process any more has ended."""
    deadline = node.clock.awake() + min(seconds, node.seconds)
    now, found = compare(node, plan, addresses=addresses)
    while _is_pending(found) and node.clock.awake() < deadline:
        node.clock.sleep(PENDING_LOOK_SECONDS)
        now, found = compare(node, plan, addresses=addresses)
    return now, found


def _is_pending(found: tuple[Difference, ...]) -> bool:
    return any(each.kind is DifferenceKind.ENDING for each in found)


def require_planned(node: Node, plan: RunPlan) -> None:
    """Require that exactly the planned containers run.

    Raises:
        StepFailed: something changed since planning.
    """
    now, lost = _settled(node, plan)
    if changes := (*lost, *appeared(plan.baseline, now, planned=plan.containers)):
        raise StepFailed(
            f"{len(changes)} containers changed since the run was planned, first: {changes[0]}",
            reason=Reason.INVENTORY_CHANGED,
            changed=affected(each.label for each in lost),
        )


def compare_without_kubelet(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, Departures]:
    """Compare the inventories while no kubelet runs, and divide the differences by their cause."""
    now, found = _settled(node, plan, addresses=addresses)
    moment = node.clock.now()
    if not any(is_expected_to_end(plan, now, each, moment) for each in found):
        return now, Departures(damage=found)
    asked = node.runtime.asked_to_stop(read_log(node, plan.runtime_unit))
    return now, divide_without_kubelet(plan, now, found, asked, moment)


def misses_an_end(node: Node, plan: RunPlan) -> bool:
    """Report whether a runtime that was just started shows a container as running whose process is gone for good.

    CRI-O looks at its containers first, and listens for their ends a second later (server.go, StartExitMonitor): what
    ends in between is shown as running until CRI-O is started again, and its pod never completes.
    """
    return node.runtime.kind.remembers_ends and _is_pending(_settled(node, plan, seconds=MISSED_SECONDS)[1])


def ended_with_runtime(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return which containers ended while no kubelet ran, for the journal; ask only if one can have."""
    may_end = any(c.may_end_with_runtime or c.may_complete for c in plan.containers)
    if not plan.rewrites() or not (may_end or may_be_in_crash_loop(plan.baseline, node.clock.now())):
        return {}
    if node.services.status(plan.swap.unit).main_pid:  # what it has done is unknown
        return {}
    _, seen = compare_without_kubelet(node, plan)
    return {ENDED: [each.container for each in seen.ended if each.container is not None]} if seen.ended else {}


def recorded_ended(payload: Mapping[str, JsonValue] | None) -> frozenset[ContainerId]:
    """Return the containers that the journal names as ended with the runtime."""
    listed = (payload or {}).get(ENDED)
    return frozenset(ContainerId(str(each)) for each in listed) if isinstance(listed, list) else frozenset()
