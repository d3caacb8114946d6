"""kubeadm's packages, and what is built on them: image-builder, kind, minikube."""

from collections.abc import Mapping

from e2e.lab.nodes import nodefiles
from e2e.layouts.layout import PACKAGED_UNIT, Layout, Start, unit

_DROP_IN = f"{PACKAGED_UNIT}.d/10-kubeadm.conf"
_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
_RELEASE = "kubernetes/release f618b2a3: kubelet.service and 10-kubeadm.conf of the packages"


def packaged(start: Start, extra: str, kubelet: str = nodefiles.KUBELET_BINARY) -> dict[str, str]:
    """Return the files of kubeadm's packages.

    Args:
        start: what the kubelet is started with.
        extra: the file with the administrator's flags.
        kubelet: path of the kubelet.
    """
    drop_in = (
        "[Service]",
        (
            'Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf'
            f' --kubeconfig={start.kubeconfig}"'
        ),
        f'Environment="KUBELET_CONFIG_ARGS=--config={start.config}"',
        f"EnvironmentFile=-{_FLAGS}",
        f"EnvironmentFile=-{extra}",
        "ExecStart=",
        f"ExecStart={kubelet} $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS",
        "",
    )
    service = f"ExecStart={kubelet}", "Restart=always", "StartLimitInterval=0", "RestartSec=10"
    return {
        PACKAGED_UNIT: unit(*service, first=("Wants=network-online.target", "After=network-online.target")),
        _DROP_IN: "\n".join(drop_in),
        _FLAGS: f'KUBELET_KUBEADM_ARGS="{" ".join(start.rest)}"\n',
        extra: 'KUBELET_EXTRA_ARGS=--node-labels="pool=web"\n',
    }


def _deb(start: Start) -> Mapping[str, str]:
    return packaged(start, "/etc/default/kubelet")


def _rpm(start: Start) -> Mapping[str, str]:
    return packaged(start, "/etc/sysconfig/kubelet")


def _flatcar(start: Start) -> Mapping[str, str]:
    compatible = "[Service]\nExecStartPre=/bin/ln -fs /run/containerd/containerd.sock /run/dockershim.sock\n"
    return {
        **packaged(start, "/etc/default/kubelet", "/opt/bin/kubelet"),
        "/etc/systemd/system/containerd.service.d/10-compat.conf": compatible,
    }


def _resource_sizing(start: Start) -> Mapping[str, str]:
    sizing = "[Service]\nExecStartPre=/usr/libexec/kubernetes/kubelet-resource-sizing.sh\n"
    return {**_deb(start), f"{PACKAGED_UNIT}.d/11-resource-sizing.conf": sizing}


def _kind(start: Start) -> Mapping[str, str]:
    lines = (
        "[Service]",
        (
            "ExecStartPre=/bin/sh -euc 'if [ -f /sys/fs/cgroup/cgroup.controllers ];"
            " then /kind/bin/create-kubelet-cgroup-v2.sh; fi'"
        ),
        (
            "ExecStartPre=/bin/sh -euc 'if [ ! -f /sys/fs/cgroup/cgroup.controllers ] &&"
            " [ ! -d /sys/fs/cgroup/systemd/kubelet ]; then mkdir -p /sys/fs/cgroup/systemd/kubelet; fi'"
        ),
        "",
    )
    return {**_deb(start), f"{PACKAGED_UNIT}.d/11-kind.conf": "\n".join(lines)}


def _minikube(start: Start) -> Mapping[str, str]:
    kubelet = "/var/lib/minikube/binaries/v1.30.14/kubelet"
    drop_in = (
        "[Unit]",
        "Wants=containerd.service",
        "[Service]",
        "ExecStart=",
        f"ExecStart={kubelet} --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf {start.flags}",
        "",
    )
    service = f"ExecStart={kubelet}", "Restart=always", "StartLimitInterval=0", "RestartSec=600ms"
    return {
        PACKAGED_UNIT: unit(*service),
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "\n".join(drop_in),
    }


_SCRIPT = "#!/bin/sh\nexit 0\n"
_ACCEPTED = {"preflight": {"accept": ["units_start_nothing_else"]}}
_A_STAND_IN = "its script is a stand-in here, so it is accepted by a person"

LAYOUTS = (
    Layout(name="kubeadm, deb", source=_RELEASE, files=_deb),
    Layout(name="kubeadm, rpm", source=_RELEASE, files=_rpm),
    Layout(
        name="image-builder, Flatcar",
        source="kubernetes-sigs/image-builder ae63061e: the providers' roles for Flatcar",
        files=_flatcar,
        kubelet="/opt/bin/kubelet",
    ),
    Layout(
        name="image-builder, resource sizing",
        source="kubernetes-sigs/image-builder ae63061e: the role kubernetes, 11-resource-sizing.conf",
        files=_resource_sizing,
        scripts={"/usr/libexec/kubernetes/kubelet-resource-sizing.sh": _SCRIPT},
        spec=_ACCEPTED,
        note="the script writes a kubelet's configuration, so a person accepts it",
    ),
    Layout(
        name="kind",
        source="kubernetes-sigs/kind fed26882: images/base/files, 11-kind.conf",
        files=_kind,
        scripts={"/kind/bin/create-kubelet-cgroup-v2.sh": _SCRIPT},
        spec=_ACCEPTED,
        note=_A_STAND_IN,
    ),
    Layout(
        name="minikube",
        source="kubernetes/minikube eb25dbc7: pkg/minikube/bootstrapper, kubelet's templates",
        files=_minikube,
        kubelet="/var/lib/minikube/binaries/v1.30.14/kubelet",
    ),
)
