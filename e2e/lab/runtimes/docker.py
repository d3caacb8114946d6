"""Docker Engine with the dockershim that kubelets before 1.24 contain, as Debian packages it."""

import json
from collections.abc import Mapping
from pathlib import Path

from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodeimages
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.runtimes import docker_snapshot
from e2e.lab.runtimes.runc import wrapper

_DAEMON = {
    "live-restore": True,
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    "storage-driver": "overlay2",
    "default-ipc-mode": "shareable",  # kubelets before 1.9 let containers join their sandbox's without asking for it
    # Pods have the network that CNI gives them.
    "bridge": "none",
    "iptables": False,
    "ip-forward": False,
}


class Docker:
    """Answers its own protocol only; the kubelet translates."""

    name = "docker"
    unit = "docker.service"
    daemon = "dockerd"
    eras = ("1.15.0", "1.17.17")
    socket = "/run/docker.sock"
    follow = "docker events"
    packages = ("containerd", "docker.io", "runc")
    config = "/etc/docker/daemon.json"
    prints_config = ()
    serves_its_socket = False
    shares_monitors = False
    keeps_digests = False
    version = ""

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
        place = root / "usr/local/sbin/runc"  # found before Debian's
        place.write_text(wrapper())
        place.chmod(0o755)

    def files(self) -> Mapping[str, str]:
        """Return dockerd's configuration."""
        return {self.config: json.dumps(_DAEMON, indent=2)}

    def with_root(self, config: str, root: str) -> str:
        """Add the setting, which is not there."""
        return json.dumps(json.loads(config) | {"data-root": root}, indent=2)

    def remove_image(self, root: Path, name: str) -> None:
        """Not needed yet: Docker removes an image only together with its containers."""
        raise LabError(f"cannot take image {name} away below {root} while containers of it run")

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
