"""Docker Engine with the dockershim that kubelets before 1.24 contain, as Debian packages it."""

import json
from collections.abc import Mapping
from pathlib import Path

from e2e.lab import nodeimages
from e2e.lab.errors import LabError
from e2e.lab.runtimes import docker_snapshot
from e2e.lab.snapshot import NodeSnapshot
from e2e.lab.versions import Version

_DAEMON = {
    "live-restore": True,
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    "storage-driver": "overlay2",
    # Pods have the network that CNI gives them.
    "bridge": "none",
    "iptables": False,
    "ip-forward": False,
}

# Scores below our own cannot be set from inside a node, and Docker has no option for that. Found before Debian's runc.
_RUNC = """\
#!/bin/sh
bundle=
for word; do
    case $before in --bundle|-b) bundle=$word ;; esac
    before=$word
done
if [ -n "$bundle" ] && [ -f "$bundle/config.json" ]; then
    sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
fi
exec /usr/sbin/runc "$@"
"""


class Docker:
    """Answers its own protocol only; the kubelet translates."""

    name = "docker"
    unit = "docker.service"
    socket = "/run/docker.sock"
    packages = ("containerd", "docker.io", "runc")
    keeps_digests = False

    @property
    def kubelet_settings(self) -> Mapping[str, object]:
        """Nothing special."""
        return {}

    def check(self, kubelet: Version) -> None:
        """Accept kubelets that contain dockershim."""
        if kubelet.release >= (1, 24):
            raise LabError(f"kubelet {kubelet} has no dockershim; take 1.23.17 or older, or --runtime cri-dockerd")

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
