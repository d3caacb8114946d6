"""What a kubelet or a runtime logged, for messages and as evidence. A log that cannot be read says nothing."""

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.engine.node.node import Node

QUOTED = 320
"""Characters of a line in a message."""


def read_log(node: Node, unit: str) -> tuple[str, ...]:
    """Return the lines of a unit's present process."""
    try:
        return node.services.log(unit)
    except StepFailed:
        return ()


def quoted(log: tuple[str, ...], instance: str) -> str:
    """Return the kubelet's last line about an instance, to be appended to a message; empty if there is none."""
    said = next((line for line in reversed(log) if instance in line), "").strip()
    return f"; the kubelet wrote: {said[:QUOTED]}" if said else ""
