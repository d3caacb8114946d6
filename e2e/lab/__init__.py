"""The lab: real Kubernetes nodes on one Linux machine, each with systemd, containerd and a real kubelet."""

from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import ContainerInstance, Difference, NodeSnapshot, SandboxInstance, compare
from e2e.lab.process import CommandError
from e2e.lab.progress import Progress
from e2e.lab.spec import LabSpec

__all__ = [
    "CommandError", "ContainerInstance", "Difference", "Lab", "LabError", "LabSpec", "Node", "NodeSnapshot", "Progress",
    "SandboxInstance", "compare",
]  # fmt: skip
