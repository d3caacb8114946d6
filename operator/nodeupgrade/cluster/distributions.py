"""Distributions whose kubelets cannot be replaced."""

from dataclasses import dataclass

from nodeupgrade.cluster.nodes import NodeView

EMBEDDED = ("k3s", "rke2", "k0s")
"""Distributions that embed the kubelet in their own program or run it from there, by prefix of the version's suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliance:
    """A distribution whose kubelet is on a read-only file system and has a plain version."""

    name: str
    tool: str  # what upgrades its kubelets
    os_image: str = ""  # how ``status.nodeInfo.osImage`` of its nodes begins
    label: str = ""  # a label that its nodes have instead

    def runs(self, node: NodeView) -> bool:
        """Report whether a node is one of this distribution."""
        return (self.os_image != "" and node.os_image.startswith(self.os_image)) or self.label in node.labels


APPLIANCES = (
    Appliance(name="Talos", os_image="Talos (", tool="talosctl upgrade-k8s"),
    Appliance(name="Bottlerocket", os_image="Bottlerocket ", tool="its image, by its update operator or by new nodes"),
    Appliance(name="OpenShift", label="node.openshift.io/os_id", tool="oc adm upgrade"),
    Appliance(name="MicroK8s", label="microk8s.io/cluster", tool="snap refresh microk8s"),
)
"""Those that the API server shows; the checks on the node refuse others, too."""
