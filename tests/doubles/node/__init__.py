"""A simulated node whose kubelet compares hashes: in-memory doubles of every node-side port."""

from tests.doubles.node.calls import Calls, Crash, Moment
from tests.doubles.node.containers.pods import manifest, pod_json
from tests.doubles.node.kubelet import Behaviour
from tests.doubles.node.planning import agent_for, examination_of, plan_for
from tests.doubles.node.simulated import SimulatedNode
from tests.doubles.node.supervisor import reboot, supervise

__all__ = [
    "Behaviour",
    "Calls",
    "Crash",
    "Moment",
    "SimulatedNode",
    "agent_for",
    "examination_of",
    "manifest",
    "plan_for",
    "pod_json",
    "reboot",
    "supervise",
]
