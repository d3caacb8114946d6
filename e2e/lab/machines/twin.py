"""A machine's disk as that of a node in namespaces, which boots in seconds where the emulator takes minutes.

What is on the disk is there, and what the machine does about it when it boots: systemd with its units, the executor,
runtime and kubelet. The machine's kernel is not, and what belongs to it: AppArmor, control groups of version 2.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.lab import naming
from e2e.lab.host import cgroups, network
from e2e.lab.machines import machinefiles
from e2e.lab.machines.vmnode import VmNode
from e2e.lab.nodes.node import Node
from e2e.lab.process import has_ended, run, spawn, undelayed, wait_until
from e2e.lab.runtimes.containerd import CONFIG

# Units that would touch this machine's hardware or network, or wait for what a node in namespaces does not have.
_MASKED = (
    "apparmor.service", "dev-hugepages.mount", "kmod-static-nodes.service", "modprobe@.service",
    "proc-sys-fs-binfmt_misc.automount", "ssh.service", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-binfmt.service", "systemd-modules-load.service",
    "systemd-networkd.service", "systemd-networkd.socket", "systemd-sysctl.service", "systemd-udev-trigger.service",
    "systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service",
)  # fmt: skip
_UNITS = Path("etc/systemd/system")
_CONFIG = "/etc/lab/containerd.toml"
# Its own configuration stays as it is, to be judged.
_DROP_IN = f"[Service]\nExecStart=\nExecStart=/usr/bin/containerd --config {_CONFIG}\n"


@dataclass(frozen=True, slots=True)
class Twin(Node):
    """Handle on a node in namespaces that has a machine's name, identity and addresses, and copies of its disk."""

    machine: VmNode

    @property
    def _exported(self) -> Path:
        """The image as a plain file."""
        return self.directory / "disk"

    def boot_from(self, image: Path) -> None:
        """Start from an image, to which is written; it is off, and so is the machine."""
        self._mount(image)
        self._adapt()
        self.boot()

    def _mount(self, image: Path) -> None:
        self._exported.touch()
        way = f"driver=qcow2,node-name=disk,file.driver=file,file.filename={image}"
        export = f"type=fuse,id=export,node-name=disk,mountpoint={self._exported},writable=on"
        outside = cgroups.entering(cgroups.create(f"{naming.lab_cgroup(self.lab)}/launchers"))
        server = spawn(
            [*outside, "qemu-storage-daemon", "--blockdev", way, "--export", export], self.directory / "export.log"
        )
        (self.directory / "server").write_text(str(server))
        wait_until("the image as a file", lambda: self._exported.stat().st_size > 0, timeout=20)
        self.disk.mkdir(exist_ok=True)
        run("mount", "-o", "loop,noatime", self._exported, self.disk)

    def _adapt(self) -> None:
        """Take from the disk what only a machine can have."""
        self.write("/etc/fstab", "")
        for unit in _MASKED:
            place = self.disk / _UNITS / unit
            place.unlink(missing_ok=True)
            place.symlink_to("/dev/null")
        self.write(_CONFIG, CONFIG + machinefiles.runc_options(self.machine.machine))
        self.write("/etc/systemd/system/containerd.service.d/twin.conf", _DROP_IN)

    def end(self) -> None:
        """Switch it off, if it is on, and forget what was written."""
        self.power_cut()
        if self.disk.is_mount():
            wait_until("its disk to be idle", self._is_unmounted, timeout=30, interval=0.1)
        if (known := self.directory / "server").exists():
            server = int(known.read_text())
            os.kill(server, signal.SIGTERM)
            wait_until("the end of what serves its disk", lambda: has_ended(server), timeout=30, interval=0.05)
            known.unlink()

    def _is_unmounted(self) -> bool:
        return run("umount", self.disk, check=False).returncode == 0


@contextmanager
def twin_of(machine: VmNode) -> Iterator[Twin]:
    """Yield a twin of a machine, which is off; bounds suit the twin while the context lasts."""
    node = Twin(machine.lab, machine.name, machine.directory / "twin", machine)
    node.directory.mkdir(exist_ok=True)
    node._write(replace(machine.record, pid=0, started=0, machine=None))
    network.create_twin(machine.lab, machine.name, machine.addresses)
    try:
        with undelayed():
            try:
                yield node
            finally:
                node.end()
    finally:
        network.destroy_node(machine.lab, machine.name)
