"""A node that is a virtual machine: a kernel, a disk and clocks of its own."""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from e2e.lab import naming
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.pki import Authority
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups, disk, network
from e2e.lab.machines import golden, machinefiles, qemu, ssh
from e2e.lab.machines.machine import Machine
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import allow_for, run, spawn, start_time, wait_until
from e2e.lab.progress import Progress

_BOOT_SECONDS = 900
_EFFORT = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"


@dataclass(frozen=True, slots=True)
class VmNode(Node):
    """Handle on a node that is a virtual machine.

    Its file system is at ``disk``: what is in the image until it is on for the first time, and the machine's own,
    through ssh, while it is on.
    """

    machine: Machine = field(default_factory=Machine)  # what kind of machine it is

    @property
    def image(self) -> Path:
        """The image of its disk to which it writes."""
        return self.directory / (self._image_name.read_text() if self._image_name.exists() else "disk.raw")

    @property
    def _image_name(self) -> Path:
        return self.directory / "image"

    @property
    def root(self) -> Path:
        """The node's file system as the node sees it, mounts included; only while it is on."""
        if not self.alive:
            raise LabError(f"machine {self.name} of lab {self.lab} is off; boot it")
        return self.disk

    @property
    def _sockets(self) -> Path:
        """What stands for its root where processes and the runtime's socket are looked for."""
        return self.directory / "view"

    @property
    def containerd_socket(self) -> Path:
        """Containerd's socket, usable from the host."""
        return Path(f"{self._sockets}{nodefiles.CONTAINERD_SOCKET}")

    @property
    def ssh(self) -> ssh.Ssh:
        """The way to it."""
        return ssh.Ssh(
            lab=self.directory.parent.parent, directory=self.directory,
            namespace=naming.control_plane_namespace(self.lab), address=self.addresses.address,
        )  # fmt: skip

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs ``argv`` in the machine."""
        return self.ssh.command(*argv)

    def put(self, source: Path, destination: str, mode: int = 0o755) -> None:
        """Copy a file of the host to ``destination`` in the node, atomically, unless the same is there already."""
        target, given = self.disk / destination.lstrip("/"), source.stat()
        if target.exists() and _size_and_time(target.stat()) == _size_and_time(given):
            return
        Node.put(self, source, destination, mode)
        os.utime(target, (given.st_atime, int(given.st_mtime)))

    # ── making it ───────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self, number: int, kubelet: str, runtime: str, authority: Authority, progress: Progress, *, kubeadm: str = ""
    ) -> None:
        """Create the machine's disk, identity and network; it is off afterwards.

        Raises:
            LabError: kubeadm or another runtime than containerd is wanted.
        """
        if kubeadm or runtime != "containerd":
            raise LabError("a machine has containerd, and the lab configures its kubelet")
        Node.create(self, number, kubelet, runtime, authority, progress)
        for path, target in machinefiles.LINKS.items():
            (self.disk / path.lstrip("/")).symlink_to(target)
        (self.disk / machinefiles.AUTHORIZED_KEYS.lstrip("/")).chmod(0o600)
        self._add_swap()
        self._relabel()

    def _machine(self) -> dict[str, Any]:
        return self.machine.json()

    def _lay_out(self, progress: Progress) -> None:
        found = golden.ensure(self.machine, progress)
        run("cp", "--sparse=always", found.disk, self.image, timeout=300)
        for file in (found.kernel, found.initrd, found.accelerator):
            shutil.copyfile(file, self.directory / file.name)
        self.disk.mkdir()
        self._mount_image()

    def _files(self, version: Version) -> dict[str, str]:
        files = Node._files(self, version)
        own = machinefiles.machine_files(self.machine, self.addresses, ssh.public_key(self.directory.parent.parent))
        config = machinefiles.with_driver(files[nodefiles.KUBELET_CONFIG], self.machine)
        return {**files, **own, nodefiles.KUBELET_CONFIG: config}

    def _connect(self) -> None:
        network.create_machine(self.lab, self.addresses)

    def _add_swap(self) -> None:
        if self.machine.swap:
            file = self.disk / machinefiles.SWAP_FILE.lstrip("/")
            run("fallocate", "--length", f"{self.machine.swap}MiB", file)
            file.chmod(0o600)
            run("mkswap", file)

    def _relabel(self) -> None:
        """Label what was added to the image; what is written later gets its label from the machine's own kernel."""
        if self.machine.selinux:
            golden.relabel(self.disk)

    # ── on and off ──────────────────────────────────────────────────────────────────────────────────────────────

    def boot(self, *, timeout: float = _BOOT_SECONDS, image: Path | None = None) -> None:
        """Start the machine and wait until its runtime answers.

        Args:
            timeout: seconds.
            image: another image of its disk than its own.

        Raises:
            LabError: it is on already, or does not come up in time.
        """
        if self.alive:
            raise LabError(f"machine {self.name} is on already; cut its power first")
        self._unmount()
        guest = self._guest(image or self.image)
        inside = cgroups.entering(cgroups.create(self.cgroup))
        tapped = ["nsenter", f"--net={network.namespace_file(naming.control_plane_namespace(self.lab))}"]
        pid = spawn([*inside, *tapped, *guest.command(self.addresses)], self.directory / "emulator.log")
        self._write(replace(self.record, pid=pid, started=start_time(pid) or 0))
        try:
            qemu.wait_until_it_listens(self.directory)
            self._reach(inside, timeout)
            wait_until(f"{self.runtime.name} on machine {self.name}", self._is_up, timeout=timeout, interval=0.5)
        except LabError as error:
            told = guest.console.read_text(errors="replace")[-1500:] if guest.console.exists() else ""
            raise LabError(f"machine {self.name} did not boot: {error}; {told}") from error
        self._measure()

    def _guest(self, image: Path) -> qemu.Guest:
        own = golden.Golden(self.directory)
        return qemu.Guest(
            machine=self.machine, kernel=own.kernel, initrd=own.initrd, disk=image, directory=self.directory,
            accelerator=own.accelerator.read_text(),
        )  # fmt: skip

    def _reach(self, inside: Sequence[str], timeout: float) -> None:
        way, log = self.ssh, self.directory / "ssh.log"
        self.containerd_socket.parent.mkdir(parents=True, exist_ok=True)
        spawn([*inside, *way.master(self.containerd_socket, nodefiles.CONTAINERD_SOCKET)], log)
        way.wait_open(timeout)
        spawn([*inside, *way.file_system(self.disk)], log)
        wait_until("the machine's file system", self.disk.is_mount, timeout=60)

    def _is_up(self) -> bool:
        if not self.alive:
            raise LabError("its emulator ended")
        return self.runtime_answers()

    def runtime_answers(self) -> bool:
        """Report whether the runtime can run containers."""
        return self.runtime.ready(self._sockets)

    def _measure(self) -> None:
        """Find out how much slower it is than this machine, so that bounds suit it."""
        began = time.monotonic()
        run("sh", "-c", _EFFORT)
        here = time.monotonic() - began
        began = time.monotonic()
        self.exec("true")
        nothing = time.monotonic() - began
        self.exec("sh", "-c", _EFFORT)
        there = time.monotonic() - began - 2 * nothing
        self._write(replace(self.record, slowness=round(max(1.0, there / here), 1)))
        allow_for(self.record.slowness)

    def power_cut(self) -> None:
        """End the emulator at once: what the guest has not written to its disk is lost."""
        Node.power_cut(self)
        self._unmount()

    def freeze_disk(self) -> Path:
        """Return an image of the disk as a power cut right now would leave it; the machine writes to another one."""
        frozen = self.image
        following = self.directory / f"disk-{len(list(self.directory.glob('disk*')))}.qcow2"
        with qemu.stopped(self.directory):
            qemu.freeze_disk(self.directory, following)
            self._image_name.write_text(following.name)
        return frozen

    def copy_of(self, frozen: Path) -> Path:
        """Return an image that starts as a frozen one, to boot from; there is one at a time."""
        image = self.directory / "copy.qcow2"
        image.unlink(missing_ok=True)
        kind = ("-b", frozen, "-F", qemu.kind(frozen))
        run("qemu-img", "create", "-q", "-f", "qcow2", *kind, image)
        return image

    def join_disks(self) -> None:
        """Make one image of the disk's images, of which there is one more with each that was frozen; it is off."""
        joined = self.directory / "joined.raw"
        run("qemu-img", "convert", "-O", "raw", self.image, joined, timeout=300)
        self._image_name.unlink(missing_ok=True)
        for image in self.directory.glob("disk*"):
            image.unlink()
        joined.rename(self.image)

    def switched_off(self, timeout: float = 300) -> None:
        """Wait until the machine has switched itself off, as it does instead of rebooting, and leave it off."""
        wait_until(f"the end of machine {self.name}", lambda: not self.alive, timeout=timeout, interval=0.3)
        self.power_cut()

    def _mount_image(self) -> None:
        run("mount", "-o", "loop,noatime", self.image, self.disk)

    def _unmount(self) -> None:
        while str(self.disk) in disk.mounted():  # perhaps by an sshfs that has ended, and cannot be asked
            run("umount", self.disk)

    # ── images and oracle ───────────────────────────────────────────────────────────────────────────────────────

    def load_images(self) -> None:
        """Leave the pause and busybox images where they are: on the disk from the start."""

    def import_image(self, archive: Path, *, timeout: float = 1200) -> None:
        """Import the image(s) of an archive on the host, unless they are on the disk from the start."""
        there = (self.disk / golden.IMPORTED.lstrip("/")).read_text().splitlines()
        if golden.imported_as(archive) not in there:
            Node.import_image(self, archive, timeout=timeout)

    def snapshot(self) -> NodeSnapshot:
        """Record every container and sandbox, and their processes as they were right before."""
        processes = self._sockets / "proc"
        shutil.rmtree(processes, ignore_errors=True)
        for line in self.exec("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null", check=False).stdout.splitlines():
            place = processes / line.partition(" ")[0]
            place.mkdir(parents=True, exist_ok=True)
            (place / "stat").write_text(f"{line}\n")
        return self.runtime.snapshot(self.name, self._sockets)


def _size_and_time(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, int(found.st_mtime)


def node_at(lab: str, directory: Path) -> Node:
    """Return the handle on the node of a lab whose files are in a directory."""
    node = Node(lab, directory.name, directory)
    record = node.record
    if record.machine is None:
        return node
    allow_for(record.slowness)
    return VmNode(lab, directory.name, directory, Machine.parse(record.machine))
