"""Exchange the files that go along with the kubelet, each by a copy and one rename.

New and old files lie beside their places: staged by the agent, kept by confirm-binaries. So the journal holds no
content, which may be secret.
"""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue
from nodeupgrade.domain.node.failpoints import FIRST_EXCHANGED, FIRST_PUT_BACK
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node import exchange
from nodeupgrade.engine.node.node import Node


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the digest of each file as it is now; ``undo`` needs nothing, since the plan has the old ones."""
    return {file.path: exchange.digest(node, file.path) for file in plan.exchanged}


def do(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> None:
    """Put the new files in place, and make systemd load those that it reads; fail if one was changed since planning."""
    for file in plan.exchanged:
        exchange.put(node, file)
        node.failpoint(FIRST_EXCHANGED)
    _reload(node, plan)


def undo(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> str | None:
    """Put the old files back, where ours are; leave a file that somebody else changed meanwhile, and say so."""
    foreign = []
    for file in reversed(plan.exchanged):
        if not exchange.put_back(node, file):
            foreign.append(file.path)
        node.failpoint(FIRST_PUT_BACK)
    _reload(node, plan)
    return f"changed by somebody else meanwhile, and left so: {', '.join(foreign)}" if foreign else None


def is_done(_node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether there is nothing to exchange; otherwise do it again, since systemd may not have loaded it."""
    return not plan.exchanged


def _reload(node: Node, plan: RunPlan) -> None:
    if any(file.of_unit for file in plan.exchanged):
        node.services.reload()
