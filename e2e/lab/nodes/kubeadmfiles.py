"""A node as kubeadm's packages leave it: the kubelet's unit with its drop-in, and no identity yet. Writes nothing."""

from e2e.lab import naming
from e2e.lab.nodes import nodefiles
from e2e.lab.runtimes import LabRuntime

KUBEADM_BINARY = "/usr/bin/kubeadm"
KUBELET_UNIT = "/usr/lib/systemd/system/kubelet.service"
KUBELET_DROP_IN = f"{KUBELET_UNIT}.d/10-kubeadm.conf"
FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
FIRST = 1
"""Number of the node with the control plane."""

_UNIT = f"""\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={nodefiles.KUBELET_BINARY}
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
"""

_DROP_IN = f"""\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig={nodefiles.KUBELET_KUBECONFIG}"
Environment="KUBELET_CONFIG_ARGS=--config={nodefiles.KUBELET_CONFIG}"
EnvironmentFile=-{FLAGS}
EnvironmentFile=-{nodefiles.KUBELET_FLAGS}
ExecStart=
ExecStart={nodefiles.KUBELET_BINARY} $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS \
$KUBELET_EXTRA_ARGS
"""

_SYSTEMD_CGROUPS = """\
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
"""


def node_files(node: str, addresses: naming.NodeAddresses, runtime: LabRuntime) -> dict[str, str]:
    """Return path → text of all files that turn a copy of the base root into a node on which kubeadm can run.

    The runtime is containerd; it uses systemd's cgroups, as kubeadm's kubelets do.
    """
    first = naming.NodeAddresses(FIRST)
    found = nodefiles.system_files(node, addresses, runtime, api_server=first.address)
    found["/etc/containerd/config.toml"] += _SYSTEMD_CGROUPS
    return {**found, KUBELET_UNIT: _UNIT, KUBELET_DROP_IN: _DROP_IN}
