"""Clusters that kubeadm makes: the control plane is static pods of the first node, and all other nodes join it.

The images of the static pods hold the lab's own binaries. A cluster starts as the patch release before that of these
binaries, with the same images under that tag: an upgrade to their release replaces every static pod but etcd's, and no
second version need be built for it.
"""

import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from e2e.lab import naming
from e2e.lab.binaries import components, programs
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.pki import Authority
from e2e.lab.nodes import nodefiles, nodeimages
from e2e.lab.nodes.node import Node
from e2e.lab.progress import Progress

AUDIT_LOG = "/var/log/kubernetes/audit/audit.log"

_API = "kubeadm.k8s.io/v1beta4"
_CONFIG = "/etc/lab/kubeadm.yaml"
_PKI = "/etc/kubernetes/pki"
_ADMISSION = "/etc/kubernetes/admission"
_TOKEN = "nodeup.0123456789abcdef"  # noqa: S105 - of a cluster that nothing outside can reach
_IGNORED = ["Mem", "NumCPU", "SystemVerification"]
"""Preflight checks of the machine, which a node shares with its host."""
_IGNORED_LATER = [*_IGNORED, "CoreDNSMigration", "CoreDNSUnsupportedPlugins", "CreateJob"]
"""Also those of an addon that is not there, and the one that a pod has to end within 15 seconds."""
_SKIPPED = ["addon/coredns", "addon/kube-proxy"]
FLAGS = f"--ignore-preflight-errors={','.join(_IGNORED_LATER)} --skip-phases={','.join(_SKIPPED)}"
"""What `kubeadm upgrade` is told in a lab, for callers that type it themselves."""
_PODS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_EVERY = (*_PODS, "etcd", "pause")
_SHARED = tuple(
    f"{name}.{kind}" for name, kinds in {
        "ca": ("crt", "key"), "sa": ("pub", "key"), "front-proxy-ca": ("crt", "key"), "etcd/ca": ("crt", "key"),
    }.items() for kind in kinds
)  # fmt: skip
"""What all control planes of a cluster have in common, below the directory of certificates."""
_PAUSE = b'#!/bin/busybox sh\n[ "$1" = -v ] || exec /bin/busybox sleep 2147483647\n'
"""A pod of `kubeadm upgrade` asks for its version, and has to end."""
_SECONDS = 420

_ADMISSION_FILES: Mapping[str, dict[str, Any]] = {
    "admission.yaml": {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "path": "pod-security.yaml"}],
    },
    "pod-security.yaml": {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": "restricted", "enforce-version": "latest"},
        "exemptions": {"namespaces": ["kube-system"]},
    },
    "audit.yaml": {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]},
}


def first_release(version: Version) -> Version:
    """Return the release as which a cluster starts: the patch before, if there is one."""
    return replace(version, patch=max(version.patch - 1, 0))


def init(node: Node, authority: Authority, version: Version, progress: Progress) -> None:
    """Make ``node`` the control plane of a new cluster, which trusts the lab's authority.

    Raises:
        LabError: a program cannot be obtained, or kubeadm fails.
    """
    _load_images(node, version, _EVERY, progress)
    node.put(authority.certificate, f"{_PKI}/ca.crt", 0o644)
    node.put(authority.directory / "ca.key", f"{_PKI}/ca.key", 0o600)
    _write_admission(node)
    progress.say(f"node {node.name}: kubeadm init")
    _run(node, "init", _init_configuration(node), _cluster_configuration(version), _kubelet_configuration())


def join(node: Node, version: Version, progress: Progress) -> None:
    """Make ``node`` a worker of the cluster.

    Raises:
        LabError: kubeadm fails.
    """
    _load_images(node, version, ("pause",), progress)
    progress.say(f"node {node.name}: kubeadm join")
    _run(node, "join", _join_configuration(node))


def join_control_plane(node: Node, first: Node, version: Version, progress: Progress) -> None:
    """Make ``node`` another control plane of the cluster, with a member of etcd.

    Raises:
        LabError: kubeadm fails.
    """
    _load_images(node, version, _EVERY, progress)
    for name in _SHARED:  # as people distribute them who do not let kubeadm upload them
        node.put(first.disk / f"{_PKI}/{name}".lstrip("/"), f"{_PKI}/{name}", 0o600)
    _write_admission(node)
    progress.say(f"node {node.name}: kubeadm join as a control plane")
    endpoint = {"advertiseAddress": node.addresses.address, "bindPort": naming.API_PORT}
    _run(node, "join", {**_join_configuration(node), "controlPlane": {"localAPIEndpoint": endpoint}})


def upgrade_node(node: Node, *, waits: str = "5m0s") -> subprocess.CompletedProcess[str]:
    """Run `kubeadm upgrade node`; its output ends with the error if it fails."""
    upgrade = {"ignorePreflightErrors": _IGNORED_LATER, "imagePullPolicy": "Never", "skipPhases": _SKIPPED}
    timeouts = {"upgradeManifests": waits}
    _configure(node, {"apiVersion": _API, "kind": "UpgradeConfiguration", "node": upgrade, "timeouts": timeouts})
    return node.exec("kubeadm", "upgrade", "node", f"--config={_CONFIG}", check=False, timeout=3 * _SECONDS)


def reset(node: Node) -> subprocess.CompletedProcess[str]:
    """Run `kubeadm reset`, without a question."""
    return node.exec("kubeadm", "reset", "--force", check=False, timeout=_SECONDS)


def renew_certificates(node: Node) -> subprocess.CompletedProcess[str]:
    """Run `kubeadm certs renew all`."""
    return node.exec("kubeadm", "certs", "renew", "all", check=False, timeout=_SECONDS)


def upgrade_apply(node: Node, version: Version, *, waits: str = "5m0s") -> subprocess.CompletedProcess[str]:
    """Run `kubeadm upgrade apply` on the control plane's node; its output ends with the error if it fails.

    Args:
        node: the node.
        version: the release to go to.
        waits: how long kubeadm waits for the kubelet to replace a static pod (``timeouts.upgradeManifests``). It has
            to be longer than the API server is away while etcd restarts.
    """
    apply = {"kubernetesVersion": version.tag, "ignorePreflightErrors": _IGNORED_LATER, "imagePullPolicy": "Never",
             "skipPhases": _SKIPPED}  # fmt: skip
    timeouts = {"upgradeManifests": waits}
    _configure(node, {"apiVersion": _API, "kind": "UpgradeConfiguration", "apply": apply, "timeouts": timeouts})
    command = ("kubeadm", "upgrade", "apply", f"--config={_CONFIG}", "--yes")
    return node.exec(*command, check=False, timeout=3 * _SECONDS)


def _run(node: Node, verb: str, *documents: dict[str, Any]) -> None:
    _configure(node, *documents)
    skipped = (f"--skip-phases={','.join(_SKIPPED)}",) if verb == "init" else ()
    node.exec("kubeadm", verb, f"--config={_CONFIG}", *skipped, timeout=_SECONDS)


def _configure(node: Node, *documents: dict[str, Any]) -> None:
    node.write(_CONFIG, yaml.safe_dump_all(documents), 0o600)


def _init_configuration(node: Node) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": _TOKEN, "ttl": "0s"}],
        "localAPIEndpoint": {"advertiseAddress": node.addresses.address, "bindPort": naming.API_PORT},
        "nodeRegistration": _registration(node),
    }


def _registration(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "criSocket": f"unix://{node.runtime.socket}",
        "ignorePreflightErrors": _IGNORED,
        "imagePullPolicy": "Never",
        "kubeletExtraArgs": [{"name": "node-ip", "value": node.addresses.address}],
    }


def _join_configuration(node: Node) -> dict[str, Any]:
    server = f"{naming.CONTROL_PLANE_ADDRESS}:{naming.API_PORT}"
    bootstrap = {"token": _TOKEN, "apiServerEndpoint": server, "unsafeSkipCAVerification": True}
    registration = {"nodeRegistration": _registration(node), "discovery": {"bootstrapToken": bootstrap}}
    return {"apiVersion": _API, "kind": "JoinConfiguration", **registration}


def _write_admission(node: Node) -> None:
    for name, content in _ADMISSION_FILES.items():
        node.write(f"{_ADMISSION}/{name}", yaml.safe_dump(content))


def _cluster_configuration(version: Version) -> dict[str, Any]:
    logs = str(Path(AUDIT_LOG).parent)
    arguments = {
        "admission-control-config-file": f"{_ADMISSION}/admission.yaml",
        "audit-policy-file": f"{_ADMISSION}/audit.yaml",
        "audit-log-path": AUDIT_LOG,
    }
    volumes = [
        {"name": "admission", "hostPath": _ADMISSION, "mountPath": _ADMISSION, "readOnly": True},
        {"name": "audit", "hostPath": logs, "mountPath": logs, "pathType": "DirectoryOrCreate"},
    ]
    return {
        "apiVersion": _API,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": first_release(version).tag,
        "controlPlaneEndpoint": f"{naming.CONTROL_PLANE_ADDRESS}:{naming.API_PORT}",
        "networking": {"serviceSubnet": naming.SERVICE_RANGE},
        "etcd": {"local": {"extraArgs": _arguments({"unsafe-no-fsync": "true"})}},  # the disk is shared by all labs
        "apiServer": {"extraArgs": _arguments(arguments), "extraVolumes": volumes},
    }


def _arguments(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _kubelet_configuration() -> dict[str, Any]:
    api = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    return {**api, **nodefiles.CROWDED, "serverTLSBootstrap": True, "failCgroupV1": False}


def _load_images(node: Node, version: Version, wanted: tuple[str, ...], progress: Progress) -> None:
    """Import the images of these names as kubeadm calls them, for the first release and for ``version``."""
    progress.say(f"node {node.name}: importing the images of {', '.join(wanted)}")
    later = _names(node, version)
    for kind, name in _names(node, first_release(version)).items():
        if kind in wanted:
            _import(node, name, kind, version, progress)
            if later[kind] != name:
                node.exec("ctr", "--namespace", "k8s.io", "images", "tag", name, later[kind])


def _names(node: Node, version: Version) -> dict[str, str]:
    """Return the images that kubeadm wants for a release, by the last part of their name."""
    listed = node.exec("kubeadm", "config", "images", "list", f"--kubernetes-version={version.tag}").stdout.split()
    return {name.rpartition("/")[2].partition(":")[0]: name for name in listed}


def _import(node: Node, name: str, kind: str, version: Version, progress: Progress) -> None:
    if kind == "pause":
        program, entrypoint = _PAUSE, ["/bin/pause"]
    else:
        path = programs.etcd() if kind == "etcd" else components.resolve(kind, str(version), progress)
        program, entrypoint = path.read_bytes(), []
    layer = nodeimages.busybox_layer(node.disk, {f"bin/{kind}": program})
    with tempfile.TemporaryDirectory(dir=node.directory) as scratch:
        archive = Path(scratch) / f"{kind}.tar"
        nodeimages.write_archive(archive, name, layer, [], entrypoint)
        node.import_image(archive)
