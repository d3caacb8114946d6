"""containerd, as Debian packages it."""

from collections.abc import Mapping
from pathlib import Path

from e2e.lab.binaries.versions import Version
from e2e.lab.nodes import nodeimages
from e2e.lab.oracle import snapshot_reader
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.runtimes.cri import cri_flags

SOCKET = "/run/containerd/containerd.sock"

CONFIG = f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  # Neither AppArmor profiles nor scores below our own can be set from inside a node.
  disable_apparmor = true
  restrict_oom_score_adj = true
  sandbox_image = "{nodeimages.PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""


class Containerd:
    """Serves the CRI itself."""

    name = "containerd"
    unit = "containerd.service"
    daemon = "containerd"
    eras = ("1.30.14", "1.33.13")
    socket = SOCKET
    follow = "ctr events"
    packages = ("containerd", "runc")
    config = "/etc/containerd/config.toml"
    prints_config: tuple[str, ...] = ("containerd", "config", "dump")
    serves_its_socket = True
    shares_monitors = True
    version = ""
    keeps_digests = True

    @property
    def kubelet_settings(self) -> Mapping[str, object]:
        """Nothing special."""
        return {}

    def check(self, kubelet: Version) -> None:
        """Accept every kubelet."""

    def complete(self, root: Path) -> None:
        """Leave the base root as the packages made it."""

    def files(self) -> Mapping[str, str]:
        """Return containerd's configuration."""
        return {self.config: CONFIG}

    def with_root(self, config: str, root: str) -> str:
        """Add the setting, which is not there."""
        return config.replace("version = 2\n", f'version = 2\nroot = "{root}"\n')

    def kubelet_flags(self, kubelet: Version) -> list[str]:
        """Return the flags for a runtime that serves the CRI."""
        return cri_flags(kubelet, self.socket)

    def import_command(self, archive: str) -> list[str]:
        """Import into the namespace of Kubernetes."""
        return ["ctr", "--namespace", "k8s.io", "images", "import", archive]

    def remove_image(self, root: Path, name: str) -> None:
        """Ask its CRI for it."""
        snapshot_reader.remove_image(Path(f"{root}{self.socket}"), name)

    def ready(self, root: Path) -> bool:
        """Ask the CRI."""
        return snapshot_reader.runtime_ready(Path(f"{root}{self.socket}"))

    def snapshot(self, node: str, root: Path) -> NodeSnapshot:
        """Ask the CRI and containerd's own store."""
        return snapshot_reader.read(node, Path(f"{root}{self.socket}"), root)
