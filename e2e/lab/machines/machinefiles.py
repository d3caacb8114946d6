"""The configuration files that a machine has beside those of every node, as text. Writes nothing."""

import json

from e2e.lab import naming
from e2e.lab.machines.machine import Machine
from e2e.lab.nodes import nodeimages

SWAP_FILE = "/swapfile"
AUTHORIZED_KEYS = "/etc/ssh/lab-keys"

_NETWORK = """\
[Match]
Name=eth0

[Network]
Address=%(address)s/24
Gateway=%(gateway)s
LinkLocalAddressing=no
IPv6AcceptRA=no
IPForward=yes
"""

_SSHD = f"""\
AuthorizedKeysFile {AUTHORIZED_KEYS}
UseDNS no
UsePAM no
PermitRootLogin prohibit-password
MaxSessions 100
"""

# Without labels for containers: Debian's policy has none for them.
_CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""
_RUNC = """\
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = {systemd}
"""

LINKS = {
    "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service":
        "/usr/lib/systemd/system/systemd-networkd.service",
}  # fmt: skip
"""Path → target of the symbolic links that enable its units."""


def machine_files(machine: Machine, addresses: naming.NodeAddresses, public_key: str) -> dict[str, str]:
    """Return path → text of the files that a machine has besides, or in place of others.

    Args:
        machine: the machine.
        addresses: its addresses.
        public_key: of the lab, which runs commands there.
    """
    found = {
        "/etc/fstab": "".join(f"{line}\n" for line in _mounts(machine)),
        "/etc/systemd/network/10-lab.network": _NETWORK
        % {"address": addresses.address, "gateway": naming.CONTROL_PLANE_ADDRESS},
        "/etc/ssh/sshd_config.d/lab.conf": _SSHD,
        AUTHORIZED_KEYS: public_key,
        "/etc/containerd/config.toml": _CONTAINERD.format(pause=nodeimages.PAUSE) + runc_options(machine),
    }
    if machine.selinux:
        found["/etc/selinux/config"] = "SELINUX=enforcing\nSELINUXTYPE=default\n"
    return found


def runc_options(machine: Machine) -> str:
    """Return the end of containerd's configuration, which says what makes control groups there."""
    return _RUNC.format(systemd=_word(machine.cgroup_driver == "systemd"))


def with_driver(kubelet_config: str, machine: Machine) -> str:
    """Return a KubeletConfiguration with the machine's cgroup driver."""
    return json.dumps({**json.loads(kubelet_config), "cgroupDriver": machine.cgroup_driver}, indent=2)


def _mounts(machine: Machine) -> list[str]:
    lines = ["/dev/vda / ext4 defaults 0 1"]
    if machine.noexec_var:
        # As Container-Optimized OS has it. A bind mount drops noexec only if it is given some other flag.
        lines += ["/var /var none bind,noexec 0 0", "/var/lib/kubelet /var/lib/kubelet none bind,exec,noatime 0 0"]
    if machine.swap:
        lines.append(f"{SWAP_FILE} none swap sw 0 0")
    return lines


def _word(value: bool) -> str:
    return "true" if value else "false"
