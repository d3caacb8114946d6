"""Debian's containerd with everything in another place, beside a second containerd that is in the usual one.

Nodes are found like this where Docker came first, or where images have a disk of their own.
"""

from collections.abc import Mapping

from e2e.lab.binaries.versions import Version
from e2e.lab.runtimes.containerd import CONFIG, Containerd
from e2e.lab.runtimes.cri import cri_flags

SOCKET = "/run/kube/containerd.sock"
OTHER_UNIT = "other-containerd.service"

_OWN_CONFIG = "/opt/containerd/kube.toml"
_PLACES = f"""\
root = "/data/containerd"
state = "/run/kube/containerd"
imports = ["/opt/containerd/conf.d/*.toml"]
[grpc]
  address = "{SOCKET}"
"""
_DROP_IN = f"""\
[Service]
ExecStart=
ExecStart=/usr/bin/containerd --config={_OWN_CONFIG} --log-level info
"""
_OTHER = """\
[Unit]
Description=A second containerd, which no kubelet uses

[Service]
ExecStart=/usr/bin/containerd
KillMode=process
Delegate=yes

[Install]
WantedBy=multi-user.target
"""


class ContainerdElsewhere(Containerd):
    """Serves the CRI from a socket that the kubelet names through a symbolic link."""

    name = "containerd-elsewhere"
    socket = SOCKET
    follow = "ctr events"
    config = _OWN_CONFIG
    prints_config = ("containerd", "--config", _OWN_CONFIG, "config", "dump")

    def files(self) -> Mapping[str, str]:
        """Return the configuration of both, and what makes systemd start the first one with its own."""
        head, _, rest = CONFIG.partition("\n")
        return {
            _OWN_CONFIG: f"{head}\n{_PLACES}{rest}",
            "/opt/containerd/conf.d/10-metrics.toml": f"{head}\n[metrics]\n  grpc_histogram = false\n",
            "/etc/systemd/system/containerd.service.d/10-elsewhere.conf": _DROP_IN,
            f"/etc/systemd/system/{OTHER_UNIT}": _OTHER,
            # As a link to it would enable it.
            f"/etc/systemd/system/multi-user.target.d/{OTHER_UNIT}.conf": f"[Unit]\nWants={OTHER_UNIT}\n",
            Containerd.config: CONFIG,
        }

    def with_root(self, config: str, root: str) -> str:
        """Change the setting."""
        return config.replace('root = "/data/containerd"', f'root = "{root}"')

    def kubelet_flags(self, kubelet: Version) -> list[str]:
        """Name the socket as most people do: /var/run is a link to /run."""
        return cri_flags(kubelet, f"/var{self.socket}")

    def import_command(self, archive: str) -> list[str]:
        """Import into the containerd of the kubelet."""
        return ["ctr", "--address", self.socket, "--namespace", "k8s.io", "images", "import", archive]
