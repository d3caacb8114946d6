"""One node of a lab: a Linux system with its own systemd, container runtime and kubelet."""

import json
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from e2e.lab import naming, paths
from e2e.lab.binaries import components
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.pki import Authority
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups, kernel, network
from e2e.lab.nodes import baseroot, kubeadmfiles, nodefiles, nodeimages
from e2e.lab.nodes.nodeboot import boot_command, check_cgroups
from e2e.lab.oracle.snapshot import NodeSnapshot, compare
from e2e.lab.process import child_of, has_ended, patience, run, spawn, start_time, wait_until
from e2e.lab.progress import Progress, Quiet
from e2e.lab.runtimes import LabRuntime, runtime_named

PLENTY_OF_INOTIFY = 1024
FILLS_RUN = 'until mount -o "remount,size=$(findmnt -bno USED /run)" /run; do n=$((n+1)); [ $n -lt 100 ]; done'
"""Lowers the limit of /run to what is in it; the kernel refuses that where somebody has written meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """What is recorded about a node."""

    number: int
    kubelet: str  # version last installed by the lab; an operator may have changed it since
    pid: int = 0  # PID 1 of the node as the host sees it, 0 when it is off
    started: int = 0  # its start time in clock ticks, so that a reused PID is not mistaken for it
    launcher: int = 0  # the process on the host that waits for PID 1
    runtime: str = "containerd"  # name of its container runtime
    kubeadm: str = ""  # version of the kubeadm that configures its kubelet; empty if the lab does
    # the virtual machine that it is, as an object of JSON; None for a node in namespaces
    machine: dict[str, Any] | None = None
    slowness: float = 1.0  # how many times slower than this machine it is


@dataclass(frozen=True, slots=True)
class Node:
    """Handle on a node; its state is in files, so that any process may have one."""

    lab: str  # name of the lab
    name: str  # name of the node, also in Kubernetes
    directory: Path  # the node's directory in the lab's state

    @property
    def record(self) -> NodeRecord:
        """The node's record."""
        try:
            written = json.loads((self.directory / "node.json").read_text())
        except FileNotFoundError as absent:
            raise LabError(
                f"there is no node {self.name} in lab {self.lab}; see `python -m e2e.lab status`"
            ) from absent
        known = {field.name for field in fields(NodeRecord)}  # another checkout's lab may tell more
        return NodeRecord(**{name: value for name, value in written.items() if name in known})

    def _write(self, record: NodeRecord) -> None:
        fresh = self.directory / "node.json.new"
        fresh.write_text(json.dumps(asdict(record)))
        fresh.rename(self.directory / "node.json")

    @property
    def addresses(self) -> naming.NodeAddresses:
        """Its addresses."""
        return naming.NodeAddresses(self.record.number)

    @property
    def alive(self) -> bool:
        """Report whether its PID 1 is running."""
        record = self.record
        return bool(record.pid) and start_time(record.pid) == record.started

    @property
    def pid(self) -> int:
        """PID 1 of the node as the host sees it.

        Raises:
            LabError: if the node is off.
        """
        if not self.alive:
            raise LabError(f"node {self.name} of lab {self.lab} is off; boot it, or take the lab down and up again")
        return self.record.pid

    @property
    def root(self) -> Path:
        """The node's file system as the node sees it, mounts included; only while it is on."""
        return Path(f"/proc/{self.pid}/root")

    @property
    def disk(self) -> Path:
        """The node's file system on the host's disk, on or off."""
        return self.directory / "root"

    @property
    def runtime(self) -> LabRuntime:
        """Its container runtime."""
        return runtime_named(self.record.runtime)

    @property
    def containerd_socket(self) -> Path:
        """Containerd's socket, usable from the host."""
        return Path(f"{self.root}{nodefiles.CONTAINERD_SOCKET}")

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs ``argv`` in the node, for callers that start it themselves."""
        clean = [
            "env",
            "-i",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "TERM=dumb",
        ]
        return ["nsenter", "-t", str(self.pid), "--all", "--wd=/", "--", *clean, *argv]

    def exec(
        self,
        *argv: str,
        input: str | None = None,  # noqa: A002 - named as in subprocess.run
        check: bool = True,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the node, as root, and wait for its end.

        Raises:
            CommandError: if it fails and ``check`` is set.
            LabError: if it takes longer than ``timeout`` seconds.
        """
        return run(*self.command(*argv), stdin=input, check=check, timeout=timeout)

    @contextmanager
    def full_run(self, before: str = "", *arguments: str, timeout: float = 60) -> Iterator[None]:
        """Leave no room in /run for the body, by its limit: what would fill it would be half of this machine's memory.

        Args:
            before: shell commands that are run directly before it.
            arguments: those of the commands.
            timeout: seconds that both may take.
        """
        size = self.exec("findmnt", "-bno", "SIZE", "/run").stdout.strip()
        try:
            self.exec("sh", "-ec", f"{before}\n{FILLS_RUN}", "sh", *arguments, timeout=timeout)
            yield
        finally:
            self.exec("mount", "-o", f"remount,size={size}", "/run")

    def put(self, source: Path, destination: str, mode: int = 0o755) -> None:
        """Copy a file of the host to ``destination`` in the node, atomically."""
        target = self.disk / destination.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.lab")
        shutil.copyfile(source, fresh)
        fresh.chmod(mode)
        fresh.rename(target)

    def write(self, destination: str, text: str, mode: int = 0o644) -> None:
        """Write a text file in the node."""
        target = self.disk / destination.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    def create(
        self, number: int, kubelet: str, runtime: str, authority: Authority, progress: Progress, *, kubeadm: str = ""
    ) -> None:
        """Create the node's file system, identity and network; it is off afterwards.

        Args:
            number: its number, from 1 on.
            kubelet: exact version.
            runtime: name of its container runtime.
            authority: issues its identity.
            progress: is told what takes long.
            kubeadm: exact version of the kubeadm that will give it its identity and configuration; by default, the lab
                gives it both.
        """
        version = Version.parse(kubelet)
        check_cgroups(version)
        self.directory.mkdir(parents=True)
        record = NodeRecord(number=number, kubelet=str(version), runtime=runtime, kubeadm=kubeadm)
        self._write(replace(record, machine=self._machine()))
        self._lay_out(progress)
        if kubeadm:
            files = kubeadmfiles.node_files(self.name, self.addresses, self.runtime)
            self.put(components.resolve("kubeadm", kubeadm, progress), kubeadmfiles.KUBEADM_BINARY)
        else:
            files = self._files(version)
            self._identify(authority)
        for path, text in files.items():
            self.write(path, text)
        (self.disk / nodefiles.STATIC_PODS.lstrip("/")).mkdir(parents=True)
        self.put(components.resolve("kubelet", str(version), progress), nodefiles.KUBELET_BINARY)
        wanted = self.disk / "etc/systemd/system/multi-user.target.wants"
        for unit in files:  # the runtime's is enabled already
            if unit in {nodefiles.NETWORK_UNIT, nodefiles.KUBELET_UNIT, kubeadmfiles.KUBELET_UNIT}:
                (wanted / Path(unit).name).symlink_to(unit)
        self._connect()

    def _machine(self) -> dict[str, Any] | None:
        return None

    def _lay_out(self, progress: Progress) -> None:
        baseroot.copy(self.disk, self.runtime, progress)

    def _files(self, version: Version) -> dict[str, str]:
        return nodefiles.node_files(self.name, self.addresses, version, self.runtime)

    def _connect(self) -> None:
        network.create_node(self.lab, self.name, self.addresses)

    def _identify(self, authority: Authority) -> None:
        identity = f"kubelet-{self.name}"
        authority.issue(identity, f"/O=system:nodes/CN=system:node:{self.name}")
        self.put(authority.kubeconfig(identity), nodefiles.KUBELET_KUBECONFIG, 0o600)
        self.put(authority.certificate, nodefiles.AUTHORITY, 0o644)

    def boot(self, *, timeout: float = 90) -> None:
        """Start the node from its disk and wait until its runtime answers.

        Raises:
            LabError: if it is on already, or does not come up in ``timeout`` seconds.
        """
        if self.alive:
            raise LabError(f"node {self.name} is on already; cut its power first")
        kernel.restore(paths.state_root() / self.lab)
        record = self.record
        log = self.directory / "boot.log"
        launcher = spawn(boot_command(self.lab, self.name, self.disk), log)
        self._write(replace(record, launcher=launcher, pid=0))
        pid = wait_until("the start of the node's PID 1", lambda: child_of(launcher), timeout=20)
        self._write(replace(record, launcher=launcher, pid=pid, started=start_time(pid) or 0))
        try:
            wait_until(f"{self.runtime.name} on node {self.name}", self._is_up, timeout=timeout)
        except LabError as error:
            raise LabError(f"node {self.name} did not boot: {error}; {log.read_text()[-500:]}{_hint()}") from error

    @property
    def cgroup(self) -> str:
        """The node's cgroup, relative to the root of every hierarchy."""
        return naming.node_cgroup(self.lab, self.name)

    def _is_up(self) -> bool:
        if not self.alive:
            raise LabError("its PID 1 ended")
        # Before systemd takes over, the root is still the host's, which may run a runtime of its own.
        booted = Path(f"/proc/{self.pid}/comm").read_text().strip() == "systemd"
        return booted and self.runtime_answers()

    def runtime_answers(self) -> bool:
        """Report whether the runtime can run containers."""
        return self.runtime.ready(self.root)

    def power_cut(self) -> None:
        """Kill PID 1 and with it every process of the node, at once; the disk remains."""
        record = self.record
        if self.alive:
            cgroups.freeze(self.cgroup)  # or some would see others die before them
        cgroups.destroy(self.cgroup)
        if record.launcher:
            wait_until("the end of the node's launcher", lambda: has_ended(record.launcher), timeout=10, interval=0.02)
        self._write(replace(record, pid=0, started=0, launcher=0))

    def load_images(self) -> None:
        """Import the pause and busybox images."""
        for name in ("pause.tar", "busybox.tar"):
            self.exec(*self.runtime.import_command(str(nodeimages.DIRECTORY / name)))

    def import_image(self, archive: Path, *, timeout: float = 300) -> None:
        """Import the image(s) of an OCI or Docker archive on the host."""
        inside = f"/var/tmp/{archive.name}"
        self.put(archive, inside, 0o600)
        try:
            self.exec(*self.runtime.import_command(inside), timeout=timeout)
        finally:
            (self.disk / inside.lstrip("/")).unlink(missing_ok=True)

    def install_kubelet(self, version: str, progress: Progress | None = None) -> None:
        """Replace the kubelet's binary, and its flags by those that this version accepts; does not restart it.

        Flags that kubeadm wrote stay as they are.
        """
        parsed = Version.parse(version)
        self.put(components.resolve("kubelet", str(parsed), progress or Quiet()), nodefiles.KUBELET_BINARY)
        if not self.record.kubeadm:
            flags = nodefiles.kubelet_flags(self.name, self.addresses, parsed, self.runtime)
            self.write(nodefiles.KUBELET_FLAGS, flags)
        self._write(replace(self.record, kubelet=str(parsed)))

    def swap_naively(self, version: str, progress: Progress | None = None) -> None:
        """Swap the kubelet the usual way: stop, replace the binary, start; wait until it is healthy."""
        components.resolve("kubelet", version, progress)
        self.exec("systemctl", "stop", "kubelet")
        self.install_kubelet(version, progress)
        self.exec("systemctl", "start", "kubelet")
        self.wait_kubelet_healthy()

    def kubelet_healthy(self) -> bool:
        """Report whether the kubelet's health endpoint says ok."""
        asked = self.exec("curl", "--silent", "--max-time", "2", nodefiles.KUBELET_HEALTHZ, check=False)
        return asked.stdout.strip() == "ok"

    def wait_kubelet_healthy(self, timeout: float = 90) -> None:
        """Wait until the kubelet is healthy."""
        wait_until(f"a healthy kubelet on node {self.name}", self.kubelet_healthy, timeout=timeout, interval=0.2)

    def settled(self, *, quiet: float = 10, limit: float = 180, but: Collection[str] = ()) -> NodeSnapshot:
        """Wait until nothing has changed for ``quiet`` seconds and return that snapshot.

        Pods whose ``namespace/name`` has one of the prefixes ``but`` may change. After ``limit`` seconds (times
        ``patience``) it is returned in any case.
        """
        limit *= patience()
        began = unchanged_since = time.monotonic()
        latest = self.snapshot()
        while (now := time.monotonic()) - unchanged_since < quiet and now - began < limit:
            time.sleep(0.5)
            fresh = self.snapshot()
            if any(not each.pod.startswith(tuple(but)) for each in compare(latest, fresh, hashes=True)):
                unchanged_since, latest = time.monotonic(), fresh
        return latest

    def snapshot(self) -> NodeSnapshot:
        """Record every container and sandbox, and their processes."""
        return self.runtime.snapshot(self.name, self.root)


def _hint() -> str:
    """Return what most often keeps a node from booting on a crowded machine."""
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    if limit >= PLENTY_OF_INOTIFY:
        return ""
    return (
        f" (a node takes about 20 inotify instances, and this machine allows {limit} in all: "
        f"sysctl fs.inotify.max_user_instances={PLENTY_OF_INOTIFY})"
    )
