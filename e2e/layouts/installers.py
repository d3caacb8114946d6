"""Nodes that kOps, Kubespray, Gardener and people themselves install, and systems with a merged /usr/local."""

from collections.abc import Mapping

from e2e.layouts.layout import KUBELET_UNIT, Layout, Start, unit


def _kops(start: Start) -> Mapping[str, str]:
    service = (
        *("EnvironmentFile=/etc/sysconfig/kubelet", 'ExecStart=/usr/local/bin/kubelet "$DAEMON_ARGS"'),
        *("Restart=always", "RestartSec=2s", "StartLimitInterval=0", "KillMode=process", "User=root"),
        "CPUAccounting=true",
    )
    again = (
        "[Unit]\nDescription=Run kOps bootstrap (nodeup)\n"
        "[Service]\nType=oneshot\nExecStart=/bin/true\nRemainAfterExit=yes\n"
    )
    return {
        KUBELET_UNIT: unit(*service, first=("After=containerd.service",)),
        "/etc/sysconfig/kubelet": f'DAEMON_ARGS="{start.flags} --v=2"\nHOME="/root"\n',
        "/etc/systemd/system/kops-configuration.service": again,
    }


def _kubespray(start: Start) -> Mapping[str, str]:
    service = (
        *("EnvironmentFile=-/etc/kubernetes/kubelet.env", "ExecStartPre=-/bin/mkdir -p /var/lib/kubelet"),
        "ExecStart=/usr/local/bin/kubelet \\\n\t\t$KUBE_LOG_LEVEL \\\n\t\t$KUBELET_HOSTNAME \\\n\t\t$KUBELET_ARGS",
        *("Restart=always", "RestartSec=10s"),
    )
    hostname = next(word for word in start.rest if word.startswith("--hostname-override="))
    others = [word for word in start.rest if word != hostname]
    arguments = " \\\n".join((f"--config={start.config}", f"--kubeconfig={start.kubeconfig}", *others))
    environment = (
        f'KUBE_LOG_LEVEL="--v=2"\nKUBELET_ADDRESS="--node-ip=127.0.0.1"\nKUBELET_HOSTNAME="{hostname}"\n\n'
        f'KUBELET_ARGS="{arguments} \\\n  "\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n'
    )
    after = ("After=containerd.service", "Wants=containerd.service")
    return {
        KUBELET_UNIT: unit(*service, first=after),
        "/etc/kubernetes/kubelet.env": environment,
        "/etc/systemd/system/containerd.service.d/modules.conf": ("[Service]\nExecStartPre=-/sbin/modprobe overlay\n"),
    }


def _gardener(start: Start) -> Mapping[str, str]:
    service = (
        *("Restart=always", "RestartSec=5", "EnvironmentFile=/etc/environment"),
        *("EnvironmentFile=-/var/lib/kubelet/extra_args",),
        f"ExecStart=/opt/bin/kubelet \\\n    {' '.join(start.flags.split())} $KUBELET_EXTRA_ARGS",
    )
    agent = "[Unit]\nDescription=Gardener Node Agent\n[Service]\nExecStart=/bin/sleep infinity\nRestart=always\n"
    return {
        KUBELET_UNIT: unit(*service, first=("After=containerd.service",)),
        "/etc/environment": "LANG=C.UTF-8\n",
        "/var/lib/kubelet/extra_args": "KUBELET_EXTRA_ARGS=--v=2\n",
        "/etc/systemd/system/gardener-node-agent.service": agent,
    }


def _by_hand(start: Start) -> Mapping[str, str]:
    flags = "".join(f" \\\n  {word}" for word in start.flags.split())
    service = (f"ExecStart=/usr/local/bin/kubelet{flags} \\\n  --v=2", "Restart=on-failure", "RestartSec=5")
    return {KUBELET_UNIT: unit(*service, first=("After=containerd.service", "Requires=containerd.service"))}


def _by_shell(start: Start) -> Mapping[str, str]:
    service = (f'ExecStart=/bin/sh -c "exec /usr/bin/kubelet {start.flags}"', "Restart=always")
    return {KUBELET_UNIT: unit(*service)}


LAYOUTS = (
    Layout(
        name="kOps",
        source="kubernetes/kops: nodeup/pkg/model, kubelet.go and containerd.go",
        files=_kops,
        kubelet="/usr/local/bin/kubelet",
    ),
    Layout(
        name="Kubespray",
        source="kubernetes-sigs/kubespray 46dbdd39: roles/kubernetes/node/templates",
        files=_kubespray,
        kubelet="/usr/local/bin/kubelet",
    ),
    Layout(
        name="Gardener",
        source="gardener/gardener b312835d: the original of the operating system's configuration",
        files=_gardener,
        kubelet="/opt/bin/kubelet",
        commands=("systemctl enable --now gardener-node-agent",),
    ),
    Layout(
        name="Fedora CoreOS",
        source="Fedora CoreOS: /usr/local is a link to /var/usrlocal, and /usr cannot be written",
        files=_by_hand,
        kubelet="/usr/local/bin/kubelet",
        commands=(
            "mv /usr/local /var/usrlocal && ln -s ../var/usrlocal /usr/local",
            "mount --bind /usr /usr && mount -o remount,bind,ro /usr",
        ),
    ),
    Layout(
        name="the hard way",
        source="kubernetes-the-hard-way: a unit with all flags in its ExecStart",
        files=_by_hand,
        kubelet="/usr/local/bin/kubelet",
    ),
    Layout(
        name="started by a shell",
        source="a unit as many people write it: ExecStart=/bin/sh -c",
        files=_by_shell,
    ),
)
