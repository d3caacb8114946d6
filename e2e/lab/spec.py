"""The specification of a lab."""

from dataclasses import dataclass

from e2e.lab import naming, paths
from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.machines.machine import Machine

CLUSTERS = ("plain", "kubeadm")
MACHINES = ("namespaces", "vm")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """The specification of a lab."""

    name: str = "lab"  # tells apart labs that run side by side
    nodes: int = 1  # how many nodes it starts with; they are called ``node1``, ``node2``, …
    kubelet: str = "1.30.14"  # exact version of their kubelets
    control_plane: str = "1.33.13"  # exact version of kube-apiserver and the rest, and of kubectl
    # the nodes' container runtime, one of ``e2e.lab.runtimes.RUNTIMES``; one that exists already may have another
    runtime: str = "containerd"
    # ``plain`` if the control plane is processes of this machine, or ``kubeadm`` if kubeadm makes it of static pods on
    # ``node1``; then the runtime is containerd
    cluster: str = "plain"
    control_planes: int = 1  # how many of a kubeadm cluster's nodes, the first ones, have a control plane with an etcd
    # ``namespaces`` if its nodes are systems in namespaces, or ``vm`` if they are virtual machines; then the runtime is
    # containerd. Nodes of the other kind may be added.
    machine: str = "namespaces"

    def __post_init__(self) -> None:
        paths.check_name(self.name)
        Version.parse(self.kubelet)
        Version.parse(self.control_plane)
        if not 0 <= self.nodes <= naming.MAX_NODES:
            raise LabError(f"cannot make a lab of {self.nodes} nodes; name a number from 0 to {naming.MAX_NODES}")
        if self.cluster not in CLUSTERS:
            raise LabError(f"there is no cluster {self.cluster}; choose one of {', '.join(CLUSTERS)}")
        if self.cluster == "kubeadm" and (self.nodes < 1 or self.runtime != "containerd"):
            raise LabError("kubeadm needs a node for the control plane, with containerd; leave --nodes and --runtime")
        if self.control_planes != 1 and (self.cluster != "kubeadm" or not 1 <= self.control_planes <= self.nodes):
            raise LabError("several control planes need --cluster kubeadm and a node each; raise --nodes")
        if self.machine not in MACHINES:
            raise LabError(f"a node cannot be of {self.machine}; choose one of {', '.join(MACHINES)}")
        if self.machine == "vm" and (self.cluster, self.runtime) != ("plain", "containerd"):
            raise LabError("virtual machines need containerd in a plain cluster; leave --cluster and --runtime")

    @property
    def default_machine(self) -> Machine | None:
        """The virtual machine that each of its nodes is; ``None`` if they are in namespaces."""
        return Machine() if self.machine == "vm" else None
