"""Docker Engine with the dockershim that kubelets before 1.24 contain, as Debian packages it."""

import json
from collections.abc import Mapping
from pathlib import Path

from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.runtimes import docker_snapshot

_DAEMON = {
    "live-restore": True,
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    "storage-driver": "overlay2",
    # Pods have the network that CNI gives them.
    "bridge": "none",
    "iptables": False,
    "ip-forward": False,
}

# Scores below our own cannot be set from inside a node, and a privileged container cannot have capabilities that the
# node itself lacks. containerd takes that into account, Docker has no option for it. Found before Debian's runc.
_RUNC = r"""#!/bin/sh
bundle= before=
for word; do
    case $before in --bundle|-b) bundle=$word ;; esac
    before=$word
done
if [ -n "$bundle" ] && [ -f "$bundle/config.json" ]; then
    edit='s/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/'
    held=$(sed -n 's/^CapBnd:[[:space:]]*/0x/p' /proc/self/status) number=0
    for name in CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE \
        NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT \
        SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE \
        AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ \
        PERFMON BPF CHECKPOINT_RESTORE; do
        [ $((held >> number & 1)) = 1 ] || edit="$edit;s/\"CAP_$name\",//g;s/,\"CAP_$name\"]/]/g"
        number=$((number + 1))
    done
    sed -i "$edit" "$bundle/config.json"
fi
exec /usr/sbin/runc "$@"
"""


class Docker:
    """Answers its own protocol only; the kubelet translates."""

    name = "docker"
    unit = "docker.service"
    daemon = "dockerd"
    eras = ("1.15.0", "1.17.17")
    socket = "/run/docker.sock"
    packages = ("containerd", "docker.io", "runc")
    serves_its_socket = False
    shares_monitors = False
    keeps_digests = False

    @property
    def kubelet_settings(self) -> Mapping[str, object]:
        """Nothing special."""
        return {}

    def check(self, kubelet: Version) -> None:
        """Accept kubelets that contain dockershim."""
        if kubelet.release >= (1, 24):
            raise LabError(f"kubelet {kubelet} has no dockershim; take 1.23.17 or older")

    def complete(self, root: Path) -> None:
        """Put the wrapper of runc in place."""
        wrapper = root / "usr/local/sbin/runc"
        wrapper.write_text(_RUNC)
        wrapper.chmod(0o755)

    def files(self) -> Mapping[str, str]:
        """Return dockerd's configuration."""
        return {"/etc/docker/daemon.json": json.dumps(_DAEMON, indent=2)}

    def kubelet_flags(self, kubelet: Version) -> list[str]:
        """Return the flags for dockershim."""
        del kubelet
        return [
            "--container-runtime=docker",
            "--network-plugin=cni",
            "--cni-bin-dir=/usr/lib/cni",
            "--cni-conf-dir=/etc/cni/net.d",
            f"--pod-infra-container-image={nodeimages.PAUSE}",
        ]

    def import_command(self, archive: str) -> list[str]:
        """Import an archive."""
        return ["docker", "load", "--input", archive]

    def ready(self, root: Path) -> bool:
        """Ask dockerd."""
        return docker_snapshot.ready(Path(f"{root}{self.socket}"))

    def snapshot(self, node: str, root: Path) -> NodeSnapshot:
        """Ask dockerd, and read its files."""
        return docker_snapshot.read(node, Path(f"{root}{self.socket}"), root)
