"""Names and addresses of a lab, all derived from its name and a node's number.

Every lab has isolated network namespaces of its own, so all labs use the same addresses; only what the host sees
(namespaces, cgroups, directories) carries the lab's name.
"""

from dataclasses import dataclass

from e2e.lab.errors import LabError

CONTROL_PLANE_ADDRESS = "10.240.0.1"
API_PORT = 6443
HTTP_PORT = 8000
"""Where the tests serve kubelets, at the control plane's address."""
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"  # first of SERVICE_RANGE: where pods find the API server
POD_RANGE = "10.244.0.0/16"
MAX_NODES = 200

_PREFIX = "nodeupgrade-lab"
_NODE_PREFIX = "node."


def control_plane_namespace(lab: str) -> str:
    """Network namespace of the control plane, the bridge, kubectl and the tests."""
    return f"{_PREFIX}.{lab}"


def node_namespace(lab: str, node: str) -> str:
    """Network namespace of one node; the dot cannot occur in names, so no two labs collide."""
    return f"{_PREFIX}.{lab}.{node}"


def lab_cgroup(lab: str) -> str:
    """The lab's cgroup in every hierarchy, relative to its root."""
    return f"{_PREFIX}/{lab}"


def node_cgroup(lab: str, node: str) -> str:
    """A node's cgroup; its siblings are ``control-plane`` and ``launchers``."""
    return f"{lab_cgroup(lab)}/{_NODE_PREFIX}{node}"


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """Addresses of one node of a lab."""

    number: int  # 1 for the first node; never reused within a lab

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MAX_NODES:
            raise LabError(f"cannot add node number {self.number} because a lab has at most {MAX_NODES}; take it down")

    @property
    def address(self) -> str:
        """The node's own address."""
        return f"10.240.0.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        """The node's pod CIDR."""
        return f"10.244.{self.number}.0/24"

    @property
    def port(self) -> str:
        """Name of the interface on the bridge, at most 15 characters."""
        return f"node{self.number}"
