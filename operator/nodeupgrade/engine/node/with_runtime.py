"""Find out which containers ended with the runtime, while no kubelet runs. See docs/decisions/runtime-clients.md.

What is found before the new kubelet is started is in the journal: once it runs, it starts these containers again, and
nothing would tell them from containers that it has replaced.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.departures import Departures, divide_without_kubelet, may_end_with_runtime
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.shield import EXCUSE_SECONDS
from nodeupgrade.domain.node.verification import Difference, DifferenceKind
from nodeupgrade.engine.node.evidence import compare, read_log
from nodeupgrade.engine.node.node import Node

LOOK_SECONDS = 0.05
"""Nobody waits but for containers whose process is gone, and of which the runtime has yet to tell how they ended."""
ENDED = "ended"


def look(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, Departures]:
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


def noted(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return which containers ended with the runtime, for the journal; nothing is asked if none can have."""
    if not plan.rewrites() or not any(c.may_end_with_runtime for c in plan.containers):
        return {}
    if node.services.status(plan.swap.unit).main_pid:  # who knows what it has done
        return {}
    _, seen = look(node, plan)
    return {ENDED: [each.container for each in seen.ended if each.container is not None]} if seen.ended else {}


def recorded(payload: Mapping[str, JsonValue] | None) -> frozenset[ContainerId]:
    """Return the containers that were noted."""
    listed = (payload or {}).get(ENDED)
    return frozenset(ContainerId(str(each)) for each in listed) if isinstance(listed, list) else frozenset()


def _is_pending(plan: RunPlan, difference: Difference) -> bool:
    return difference.kind is DifferenceKind.ENDING and may_end_with_runtime(plan, difference)
