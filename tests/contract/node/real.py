"""The real adapters as worlds: files in a temporary directory, the rest on a node of the lab."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import grpc
from google.protobuf.any_pb2 import Any

from e2e.lab.nodes import nodeimages
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until
from nodeupgrade.api.values import AwakeTime, ContainerId, NodeName
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.bundle import build
from nodeupgrade.node.executor import units
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.node import SHIELD
from nodeupgrade.node.own_directories import RUNS, STATE_DIRECTORY
from nodeupgrade.node.plan.plan import ShieldPlan
from nodeupgrade.node.runtimes.containerd import hash_store, metadata
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.shield.socket_exchange import HostShield
from tests.builders.looks import at_once
from tests.builders.shielded import shielded_plan
from tests.contract.node import wire
from tests.contract.node.cripods import CriPods

IMAGE = nodeimages.BUSYBOX
CONTAINERD = "containerd.service"
BUNDLE = STATE_DIRECTORY / "bundles/contract"
UNIT = "contract-service.service"
UNIT_TEXT = """[Unit]
Description=A service that never ends
[Service]
ExecStart=/bin/sleep infinity
Restart=always
RestartSec=100ms
[Install]
WantedBy=multi-user.target
"""
AWAKE = """
from pathlib import Path
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.host.processes.processes import ProcessTable
print(SystemClock(ProcessTable(Path("/proc"))).awake().seconds)
"""


class RealFilesWorld:
    """HostFiles on a directory that plays the node's root."""

    def __init__(self, root: Path) -> None:
        self.files = HostFiles(root)
        self.directory = PurePosixPath("/var/lib/thing")
        (root / "var/lib/thing").mkdir(parents=True)


def systemd(node: Node) -> SystemdManager:
    """The service manager of a node, from outside of it."""
    return SystemdManager(prefix=("nsenter", "-t", str(node.pid), "--all", "--"), root=node.root)


class ContainerdWorld:
    """The containerd of a node whose kubelet is stopped."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.processes = ProcessTable(node.root / "proc")
        self.services = systemd(node)
        self.runtime = ContainerdRuntime(
            node.containerd_socket,
            processes=self.processes,
            files=HostFiles(node.root),
            services=self.services,
            prefix=tuple(node.command()),
        )
        self.store = hash_store.MetadataStore(self.runtime.connection)
        self.pods = CriPods(node.containerd_socket, IMAGE)

    @property
    def unit(self) -> UnitStatus:
        return self.services.status(CONTAINERD)

    def start_container(self, hashes: StoredHashes, *, texts: tuple[str, ...] = ()) -> ContainerId:
        return self.pods.start(hashes, texts=texts)

    def remove_container(self, container_id: ContainerId) -> None:
        self.pods.remove(container_id)

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        stored = self.record(container_id).extensions[metadata.EXTENSION]
        document = json.loads(stored.value)
        document["Metadata"]["LogPath"] += ".moved"
        self.write(container_id, stored.type_url, json.dumps(document, separators=(",", ":")).encode())

    def write(self, container_id: ContainerId, type_url: str, data: bytes) -> None:
        """Store any metadata whatever."""
        self.store.update([(container_id, Any(type_url=type_url, value=data))])

    def record(self, container_id: ContainerId) -> pb.Container:
        """The record as stored."""
        [record] = self.store.records([container_id])
        return record

    def restart(self) -> None:
        self.services.restart(CONTAINERD, seconds=120)

    def restart_in_error(self) -> None:
        self.restart()  # it asks the shims, which know

    def kill(self) -> None:
        """Kill the daemon, as the kernel would when memory runs out."""
        main = self.services.status(CONTAINERD).main_pid
        self.node.exec("kill", "-KILL", str(main))

    def close(self) -> None:
        """Leave the node as it was found."""
        self.runtime.wait_until_answering(60)
        self.pods.remove_all()
        self.runtime.close()


class RealShieldWorld:
    """The shield between a client and the containerd of a node, as a unit that is not restarted."""

    def __init__(self, containerd: ContainerdWorld) -> None:
        self._world, self._node = containerd, containerd.node
        self._container = containerd.start_container(StoredHashes(container=HashValue("1")))
        socket = PurePosixPath("/") / self._node.containerd_socket.relative_to(self._node.root)
        self.shield = HostShield(self._node.containerd_socket, self._node.root / "run")
        self._runs = self._node.root / RUNS.relative_to("/")
        plan = shielded_plan(socket=str(socket), static=False)
        RunStore(self._runs).write_plan(
            replace(plan, baseline=containerd.runtime.inventory(full=True), containers=(), node=NodeName("node1"))
        )
        if not (bundle := self._node.disk / BUNDLE.relative_to("/")).exists():
            build.build(bundle)
        text = units.shield_unit(BUNDLE, ShieldPlan(socket=str(socket))).replace("Restart=on-failure", "Restart=no")
        self._unit = self._node.root / f"run/systemd/system/{SHIELD}"
        self._unit.parent.mkdir(exist_ok=True)
        self._unit.write_text(text)
        containerd.services.reload(at_once)
        self.start()

    def refuses(self) -> bool:
        try:
            stop = "/runtime.v1.RuntimeService/StopContainer"
            wire.call(self._node.containerd_socket, stop, {1: self._container, 2: 1})
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return True
        return False

    def crash(self) -> None:
        self._node.exec("systemctl", "kill", "-s", "KILL", SHIELD)
        wait_until("the process is gone", lambda: not self._world.services.status(SHIELD).running, 30)

    def start(self) -> None:
        self._world.services.start(SHIELD)

    def restart_runtime(self) -> None:
        stays = self.shield.raised() and self.shield.ready()
        noticed = (self.shield.restarts() + stays, stays)
        self._world.services.restart(CONTAINERD, seconds=120)
        self._world.runtime.wait_until_answering(60)  # its unit may be active before it accepts connections
        wait_until("the shield has noticed", lambda: (self.shield.restarts(), self.shield.raised()) == noticed, 30)

    def close(self) -> None:
        """Leave the node as it was found."""
        self._world.services.stop(SHIELD)
        self.shield.lower()
        self._unit.unlink()
        self._world.services.reload(at_once)
        shutil.rmtree(self._runs)
        for left in ("refused", "restarts", "lock", "waiting"):
            (self._node.root / f"run/nodeupgrade-shield.{left}").unlink(missing_ok=True)
        (self._node.containerd_socket.with_name("nodeupgrade-shield.sock")).unlink(missing_ok=True)


class SystemdWorld:
    """A service of our own on a node."""

    def __init__(self, node: Node, directory: str) -> None:
        self.node = node
        self.services = systemd(node)
        self.unit = UNIT
        self._file = f"{directory}/{UNIT}"
        node.write(self._file, UNIT_TEXT)
        self.services.reload(at_once)
        node.exec("systemctl", "enable", "--now", UNIT)

    def write_drop_in(self, text: str) -> str:
        path = f"/etc/systemd/system/{self.unit}.d/10-contract.conf"
        self.node.write(path, text)
        return path

    def awake(self) -> AwakeTime:
        done = subprocess.run(
            ["unshare", "--time", "--boottime", "3600", sys.executable, "-c", AWAKE],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        )
        return AwakeTime(float(done.stdout))

    def kill(self) -> None:
        killed = self.services.status(self.unit).main_pid

        def answered() -> bool:
            status = self.services.status(self.unit)
            job = self.node.exec("systemctl", "show", "--property=Job", "--value", self.unit).stdout.strip()
            return status.main_pid != killed and status.active_state != "activating" and not job

        self.node.exec("kill", "-KILL", str(killed))
        wait_until("systemd has restarted the unit or will not", answered, 30)

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``systemctl`` in the node, as a person would."""
        return self.node.exec("systemctl", *arguments, check=False)

    def close(self) -> None:
        """Leave the node as it was found."""
        self.services.unmask(self.unit)
        self.services.remove_mask(self.unit)
        self.services.stop(self.unit)
        self.node.exec("systemctl", "disable", UNIT)
        (self.node.disk / self._file.lstrip("/")).unlink()
        self.node.exec("rm", "-rf", f"/etc/systemd/system/{UNIT}.d")
        self.services.reload(at_once)
