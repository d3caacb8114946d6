"""The ports of a runtime that does not start: whoever runs a pod in the node's network may have taken one meanwhile.

A runtime without its port for metrics or streams exits, and only its log says which ports these are.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.kubelet_log import read_log
from nodeupgrade.text import number

TAKEN = re.compile(r"listen tcp[46]? \S*:([0-9]{1,5}): bind: address already in use", re.ASCII)
"""What Go says, in which these runtimes are written."""


def who_has_one(node: Node, plan: RunPlan) -> str:
    """Return who has a port that the runtime could not get, to be appended to a message; empty if nobody does now."""
    with suppress(StepFailed, Transient):
        for found in node.kubelet.listeners(not_got(read_log(node, plan.runtime_unit)), lambda: 0):
            return f"; its port {found.port} is taken: {found}"
    return ""


def not_got(log: Iterable[str]) -> list[int]:
    """Return the ports that a runtime could not get, by its log."""
    found = {number(port) for line in log for port in TAKEN.findall(line)}
    return sorted(filter(None, found))
