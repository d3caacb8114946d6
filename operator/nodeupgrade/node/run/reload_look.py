"""The looks of a run before a ``daemon-reload``, by what the kubelet's stop recorded of containers' devices."""

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.facts.device_access import Harmless, Unavoidable
from nodeupgrade.node.node import Node

DEVICES = "devices"
"""Where the record of the kubelet's stop has what a harmless reload rests on, beside paths of state files."""


def harmless(node: Node) -> Harmless:
    """Return the look of a run that goes on or back without the reload if that would take a device."""
    return Harmless(node.files, node.services, (node.recorded(Step.STOP_KUBELET) or {}).get(DEVICES))


def unavoidable(node: Node) -> Unavoidable:
    """Return the look on the way back, which no device may hold up: no node stays without its old kubelet."""
    return Unavoidable(harmless(node))
