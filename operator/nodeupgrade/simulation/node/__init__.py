"""A simulated node whose kubelet compares hashes: in-memory doubles of every node-side port."""

from nodeupgrade.simulation.node.calls import Calls, Crash, Moment
from nodeupgrade.simulation.node.containers.pods import manifest, pod_json
from nodeupgrade.simulation.node.kubelet import Behaviour
from nodeupgrade.simulation.node.planning import plan_for
from nodeupgrade.simulation.node.simulated import SimulatedNode
from nodeupgrade.simulation.node.supervisor import reboot, supervise

__all__ = [
    "Behaviour",
    "Calls",
    "Crash",
    "Moment",
    "SimulatedNode",
    "manifest",
    "plan_for",
    "pod_json",
    "reboot",
    "supervise",
]
