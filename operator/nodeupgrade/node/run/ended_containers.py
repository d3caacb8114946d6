"""Which containers ended with the runtime, while no kubelet runs. See docs/decisions/runtime-clients.md.

What is found before the new kubelet is started is in the journal: once it runs, it starts these containers again, and
nothing would tell them from containers that it has replaced.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.evidence import compare
from nodeupgrade.node.run.kubelet_log import read_log
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.shield.rules import EXCUSE_SECONDS
from nodeupgrade.node.verification.departures import Departures, divide_without_kubelet, may_end_with_runtime
from nodeupgrade.node.verification.verification import Difference, DifferenceKind

LOOK_SECONDS = 0.05
"""Nobody waits but for containers whose process is gone, and of which the runtime has yet to tell how they ended."""
ENDED = "ended"


def look_without_kubelet(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, Departures]:
    """Compare the inventory with the plan's, and divide the differences; only while no kubelet runs."""
    deadline = node.clock.awake() + min(EXCUSE_SECONDS, node.seconds)
    now, found = compare(node, plan, addresses=addresses)
    while any(_is_pending(plan, each) for each in found) and node.clock.awake() < deadline:
        node.clock.sleep(LOOK_SECONDS)
        now, found = compare(node, plan, addresses=addresses)
    if not any(may_end_with_runtime(plan, each) for each in found):
        return now, Departures(damage=found)
    asked = node.runtime.asked_to_stop(read_log(node, plan.runtime_unit))
    return now, divide_without_kubelet(plan, now, found, asked)


def note_ended(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return which containers ended with the runtime, for the journal; nothing is asked if none can have."""
    if not plan.rewrites() or not any(c.may_end_with_runtime for c in plan.containers):
        return {}
    if node.services.status(plan.swap.unit).main_pid:  # who knows what it has done
        return {}
    _, seen = look_without_kubelet(node, plan)
    return {ENDED: [each.container for each in seen.ended if each.container is not None]} if seen.ended else {}


def recorded_ended(payload: Mapping[str, JsonValue] | None) -> frozenset[ContainerId]:
    """Return the containers that were noted."""
    listed = (payload or {}).get(ENDED)
    return frozenset(ContainerId(str(each)) for each in listed) if isinstance(listed, list) else frozenset()


def _is_pending(plan: RunPlan, difference: Difference) -> bool:
    return difference.kind is DifferenceKind.ENDING and may_end_with_runtime(plan, difference)
