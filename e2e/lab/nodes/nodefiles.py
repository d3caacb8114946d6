"""The configuration files of a node, as text. Writes nothing."""

import json
from collections.abc import Mapping

from e2e.lab import naming
from e2e.lab.binaries.versions import Version
from e2e.lab.process import LITTLE_COLLECTING
from e2e.lab.runtimes import LabRuntime
from e2e.lab.runtimes.containerd import SOCKET

KUBELET_BINARY = "/usr/bin/kubelet"
KUBELET_UNIT = "/etc/systemd/system/kubelet.service"
NETWORK_UNIT = "/etc/systemd/system/lab-network.service"
KUBELET_FLAGS = "/etc/default/kubelet"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET_KUBECONFIG = "/etc/kubernetes/kubelet.conf"
KUBELET_HEALTHZ = "http://127.0.0.1:10248/healthz"
STATIC_PODS = "/etc/kubernetes/manifests"
AUTHORITY = "/etc/kubernetes/pki/ca.crt"
CONTAINERD_SOCKET = SOCKET

EVICTED_BELOW: Mapping[str, str] = {
    "memory.available": "10Mi",
    "nodefs.available": "1%",
    "nodefs.inodesFree": "1%",
    "imagefs.available": "1%",
}
"""A node sees the disk of its host: a busy one must not evict pods in the middle of a test."""

CROWDED: Mapping[str, object] = {
    "failSwapOn": False,
    "maxPods": 250,
    "evictionHard": EVICTED_BELOW,
    "imageGCHighThresholdPercent": 99,
    "imageGCLowThresholdPercent": 98,
}
"""Fields of the KubeletConfiguration that kubelets need which share a machine."""

CONFIG_READ = (1, 10)
"""Kubelets from then on read a KubeletConfiguration; older ones know flags only."""

_KUBELET_UNIT = f"""\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=%(runtime)s network-online.target
After=%(runtime)s network-online.target

[Service]
EnvironmentFile=-{KUBELET_FLAGS}
ExecStart={KUBELET_BINARY} $KUBELET_FLAGS
Restart=always
RestartSec=2
StartLimitIntervalSec=0
KillMode=process
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
"""

_NETWORK_UNIT = """\
[Unit]
Description=Way to the Service address of the API server, in place of kube-proxy
DefaultDependencies=no
Before=network.target

[Service]
Type=oneshot
ExecStart=/usr/sbin/iptables-restore /etc/lab/iptables
ExecStart=/bin/busybox sysctl -w net.ipv4.ip_forward=1
RemainAfterExit=yes

[Install]
WantedBy=multi-user.target
"""

_JOURNAL = """\
[Journal]
Storage=persistent
ReadKMsg=no
RateLimitIntervalSec=0
SystemMaxUse=200M
"""

_MANAGER = f"""\
[Manager]
DefaultEnvironment={LITTLE_COLLECTING}
"""


def node_files(node: str, addresses: naming.NodeAddresses, kubelet: Version, runtime: LabRuntime) -> dict[str, str]:
    """Return path → text of all files that turn a copy of the base root into this node."""
    return {
        **system_files(node, addresses, runtime),
        KUBELET_UNIT: _KUBELET_UNIT % {"runtime": runtime.unit},
        KUBELET_FLAGS: kubelet_flags(node, addresses, kubelet, runtime),
        KUBELET_CONFIG: json.dumps(kubelet_config(kubelet) | dict(runtime.kubelet_settings), indent=2),
    }


def system_files(
    node: str, addresses: naming.NodeAddresses, runtime: LabRuntime, *, api_server: str = naming.CONTROL_PLANE_ADDRESS
) -> dict[str, str]:
    """Return path → text of the files of a node that has a runtime, but no kubelet.

    Args:
        node: its name.
        addresses: its addresses.
        runtime: its runtime.
        api_server: address of the API server.
    """
    return {
        "/etc/hostname": f"{node}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{addresses.address} {node}\n",
        "/etc/resolv.conf": "",
        "/etc/cni/net.d/10-lab.conflist": json.dumps(cni_config(addresses), indent=2),
        "/etc/lab/iptables": iptables_rules(addresses, api_server),
        "/etc/systemd/journald.conf.d/lab.conf": _JOURNAL,
        "/etc/systemd/system.conf.d/lab.conf": _MANAGER,
        NETWORK_UNIT: _NETWORK_UNIT,
        **runtime.files(),
    }


def kubelet_flags(node: str, addresses: naming.NodeAddresses, version: Version, runtime: LabRuntime) -> str:
    """Render the environment file with the flags that this kubelet accepts."""
    flags = [
        *_configuration(version),
        f"--kubeconfig={KUBELET_KUBECONFIG}",
        f"--hostname-override={node}",
        f"--node-ip={addresses.address}",
        *runtime.kubelet_flags(version),
        # Why it restarts a container, which it cannot tell a current API server in Events.
        *(["--v=2"] if version.release < (1, 16) else []),
    ]
    return f'KUBELET_FLAGS="{" ".join(flags)}"\n'


def _configuration(version: Version) -> list[str]:
    """Return the flags that say what `kubelet_config` says; of an old kubelet, without what it does by default."""
    if version.release >= CONFIG_READ:
        return [f"--config={KUBELET_CONFIG}"]
    thresholds = ",".join(f"{signal}<{least}" for signal, least in EVICTED_BELOW.items())
    return [
        f"--pod-manifest-path={STATIC_PODS}",
        "--cgroup-driver=cgroupfs",
        "--anonymous-auth=false",
        f"--client-ca-file={AUTHORITY}",
        "--cluster-domain=cluster.local",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--serialize-image-pulls=false",
        "--max-pods=250",
        f"--eviction-hard={thresholds}",
        "--image-gc-high-threshold=99",
        "--image-gc-low-threshold=98",
        "--allow-privileged=true",  # or it runs no agent
        "--require-kubeconfig=true",  # or 1.7 asks no API server
        *(["--fail-swap-on=false"] if version.release >= (1, 8) else []),
    ]


def kubelet_config(version: Version) -> dict[str, object]:
    """Return the KubeletConfiguration for a node created with ``version``; JSON is YAML."""
    config: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": STATIC_PODS,
        "cgroupDriver": "cgroupfs",
        "registerNode": True,
        "rotateCertificates": False,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "authentication": {
            # The token and access review versions that kubelets up to 1.18 ask for are gone from newer API servers.
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": AUTHORITY},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "clusterDomain": "cluster.local",
        "resolvConf": "/etc/resolv.conf",
        "kubeAPIQPS": 50,
        "kubeAPIBurst": 100,
        "serializeImagePulls": False,
        **CROWDED,
    }
    if version.release < (1, 20):  # their Lease API is gone from newer API servers: status updates are the heartbeat
        config |= {"nodeStatusUpdateFrequency": "10s", "nodeStatusReportFrequency": "10s"}
    if version.release >= (1, 30):  # known from 1.31 on, and without it 1.35 refuses version 1 cgroups
        config["failCgroupV1"] = False
    return config


def cni_config(addresses: naming.NodeAddresses) -> dict[str, object]:
    """Return the CNI chain; 0.3.1 is the newest that every kubelet from 1.15 on and every containerd reads."""
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": addresses.pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-ipam",  # forgotten at a reboot, like the pods' networks
    }
    plugins = [{"type": "ptp", "mtu": 1500, "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.3.1", "name": "lab", "plugins": plugins}


def iptables_rules(addresses: naming.NodeAddresses, api_server: str = naming.CONTROL_PLANE_ADDRESS) -> str:
    """Return rules that send the API server's Service address to its own.

    Args:
        addresses: those of the node.
        api_server: address of the API server; where it is not at the control plane's address, that leads to it, too.
    """
    ways = {f"{naming.SERVICE_ADDRESS}/32 -p tcp --dport 443"}
    if api_server != naming.CONTROL_PLANE_ADDRESS:
        ways.add(f"{naming.CONTROL_PLANE_ADDRESS}/32 -p tcp --dport {naming.API_PORT}")
    rules = [
        f"-A {chain} -d {way} -j DNAT --to-destination {api_server}:{naming.API_PORT}"
        for way in sorted(ways)
        for chain in ("PREROUTING", "OUTPUT")
    ]
    leaving = f"-A POSTROUTING -s {addresses.pod_range} -d {api_server}/32 -j MASQUERADE"
    return "\n".join(["*nat", *rules, leaving, "COMMIT", ""])
