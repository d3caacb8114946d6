"""Nodes of Amazon, Microsoft and Google."""

from collections.abc import Mapping
from typing import Any

from e2e.cluster import GUARDED
from e2e.credentials import CredentialProgram
from e2e.lab.nodes import nodefiles
from e2e.layouts.layout import KUBELET_UNIT, Layout, Start, unit

_EXECUTABLE = ("/var/lib/kubelet", "/var/lib/containerd")
"""Below /var, on Container-Optimized OS."""
_FORWARD = "ExecStartPre=/sbin/iptables -P FORWARD ACCEPT -w 5"


def _al2(start: Start) -> Mapping[str, str]:
    sandbox_image = "[Unit]\nDescription=pull the sandbox image\n[Service]\nType=oneshot\nExecStart=/bin/true\n"
    service = (
        *("Slice=runtime.slice", _FORWARD),
        (
            f"ExecStart=/usr/bin/kubelet --config {start.config} --kubeconfig {start.kubeconfig} $KUBELET_ARGS"
            " $KUBELET_EXTRA_ARGS"
        ),
        *("Restart=on-failure", "RestartForceExitStatus=SIGPIPE", "RestartSec=5", "KillMode=process"),
        *("CPUAccounting=true", "MemoryAccounting=true"),
    )
    after = "After=containerd.service sandbox-image.service", "Requires=containerd.service sandbox-image.service"
    return {
        KUBELET_UNIT: unit(*service, first=after),
        f"{KUBELET_UNIT}.d/10-kubelet-args.conf": f"[Service]\nEnvironment='KUBELET_ARGS={' '.join(start.rest)}'\n",
        f"{KUBELET_UNIT}.d/30-kubelet-extra-args.conf": (
            "[Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=eks.amazonaws.com/nodegroup=web'\n"
        ),
        "/etc/systemd/system/sandbox-image.service": sandbox_image,
        "/etc/systemd/system/containerd.service.d/10-compat-symlink.conf": (
            "[Service]\nExecStartPre=/bin/ln -sf /run/containerd/containerd.sock /run/dockershim.sock\n"
        ),
    }


def _al2023(start: Start) -> Mapping[str, str]:
    service = (
        *("Slice=runtime.slice", "EnvironmentFile=/etc/eks/kubelet/environment", _FORWARD),
        "ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS",
        *("Restart=on-failure", "RestartForceExitStatus=SIGPIPE", "RestartSec=5", "KillMode=process"),
    )
    drop_ins = "/etc/kubernetes/kubelet/config.json.d"
    settings = '{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 200}\n'
    return {
        KUBELET_UNIT: unit(*service, first=("After=containerd.service", "Wants=containerd.service")),
        "/etc/eks/kubelet/environment": f'NODEADM_KUBELET_ARGS="{start.flags} --config-dir={drop_ins}"\n',
        f"{drop_ins}/40-nodeadm.conf": settings,
        "/etc/systemd/system/containerd.service.d/10-slice.conf": "[Service]\nSlice=runtime.slice\n",
    }


def _aks(start: Start) -> Mapping[str, str]:
    scripts = "/opt/azure/containers"
    service = (
        *("Restart=always", "EnvironmentFile=/etc/default/kubelet", "SuccessExitStatus=143"),
        f"ExecStartPre=/bin/bash {scripts}/kubelet.sh",
        f"ExecStartPre=/bin/bash {scripts}/ensure_imds_restriction.sh",
        "ExecStartPre=/bin/mkdir -p /var/lib/kubelet",
        (
            'ExecStartPre=/bin/bash -c "if [ $(mount | grep \\"/var/lib/kubelet\\" | wc -l) -le 0 ] ; '
            'then /bin/mount --bind /var/lib/kubelet /var/lib/kubelet ; fi"'
        ),
        "ExecStartPre=/bin/mount --make-shared /var/lib/kubelet",
        "ExecStartPre=-/sbin/ebtables -t nat --list",
        "ExecStartPre=-/sbin/iptables -t nat --numeric --list",
        f"ExecStartPre=/bin/bash {scripts}/validate-kubelet-credentials.sh",
        "ExecStart=/opt/bin/kubelet --node-labels=${KUBELET_NODE_LABELS} $KUBELET_FLAGS",
    )
    flags = f"KUBELET_FLAGS={start.flags}\nKUBELET_NODE_LABELS=agentpool=web,kubernetes.azure.com/role=agent\n"
    return {
        KUBELET_UNIT: unit(*service, first=("ConditionPathExists=/opt/bin/kubelet", "After=containerd.service")),
        "/etc/default/kubelet": flags,
        "/etc/systemd/system/containerd.service.d/exec_start.conf": (
            "[Service]\nExecStartPost=/sbin/iptables -P FORWARD ACCEPT\n"
        ),
    }


def _cos(start: Start) -> Mapping[str, str]:
    service = (
        *("Restart=always", "RestartSec=10", "EnvironmentFile=/etc/default/kubelet"),
        "ExecStart=/home/kubernetes/bin/kubelet $KUBELET_OPTS",
    )
    return {
        KUBELET_UNIT: unit(*service, first=("Requires=network-online.target", "After=network-online.target")),
        "/etc/default/kubelet": f'KUBELET_OPTS="--v=2 {start.flags}"\n',
    }


_AL2_PLUGIN = CredentialProgram(
    path="/usr/bin/aws-iam-authenticator",
    command="/usr/bin/aws-iam-authenticator",
    version="v1beta1",
    arguments="token, -i, lab, --region, eu-central-1",
)
_AL2023_PLUGIN = CredentialProgram(
    path="/usr/local/bin/aws-iam-authenticator",
    command="aws-iam-authenticator",
    version="v1",
    arguments="token, -i, lab, --region, eu-central-1",
)
_GKE_PLUGIN = CredentialProgram(
    path="/home/kubernetes/bin/gke-exec-auth-plugin",
    command="/home/kubernetes/bin/gke-exec-auth-plugin",
    version="v1beta1",
    arguments="--cache-dir, /var/lib/kubelet/pki/",
)


def _by(plugin: CredentialProgram) -> dict[str, Any]:
    return {
        "scripts": {plugin.path: plugin.script()},
        "commands": (plugin.named(nodefiles.KUBELET_KUBECONFIG),),
        "verify": GUARDED,
    }


_NOTE = "its credentials come from a program; the readiness guard was required, and in force"

_SCRIPTS = ("kubelet.sh", "ensure_imds_restriction.sh", "validate-kubelet-credentials.sh")

LAYOUTS = (
    Layout(
        name="EKS, Amazon Linux 2",
        source="awslabs/amazon-eks-ami: templates/al2, its last state",
        files=_al2,
        note=_NOTE,
        **_by(_AL2_PLUGIN),
    ),
    Layout(
        name="EKS, Amazon Linux 2023",
        source="awslabs/amazon-eks-ami 81fec2e8: nodeadm",
        files=_al2023,
        note=_NOTE,
        **_by(_AL2023_PLUGIN),
    ),
    Layout(
        name="AKS",
        source="Azure/AgentBaker 06836ee2: parts/linux/cloud-init/artifacts",
        files=_aks,
        kubelet="/opt/bin/kubelet",
        scripts={f"/opt/azure/containers/{name}": "#!/bin/bash\nexit 0\n" for name in _SCRIPTS},
        spec={"preflight": {"accept": ["units_start_nothing_else"]}},
        note="its scripts are stand-ins here, so they are accepted by a person",
    ),
    Layout(
        name="GKE and kube-up, Container-Optimized OS",
        source="kubernetes/kubernetes: cluster/gce/gci/configure-helper.sh; COS: disks and file systems",
        files=_cos,
        kubelet="/home/kubernetes/bin/kubelet",
        scripts={_GKE_PLUGIN.path: _GKE_PLUGIN.script()},
        verify=GUARDED,
        note=f"{_NOTE}; /var and /home may not execute programs",
        commands=(
            _GKE_PLUGIN.named(nodefiles.KUBELET_KUBECONFIG),
            *(f"mount --bind {path} {path}" for path in ("/var", *_EXECUTABLE)),
            "mount -o remount,bind,noexec,nosuid,nodev /var",
            *(f"mount -o remount,bind,exec,suid,dev {path}" for path in _EXECUTABLE),
            "mount --bind /home /home && mount -o remount,bind,noexec,nosuid,nodev /home",
            "mount --bind /home/kubernetes/bin /home/kubernetes/bin && mount -o remount,bind,exec /home/kubernetes/bin",
        ),
    ),
)
