"""The real adapters as worlds: files in a temporary directory, the rest on a node of the lab."""

import json
import subprocess
import time
from pathlib import Path, PurePosixPath

from google.protobuf.any_pb2 import Any

from e2e.lab import nodeimages
from e2e.lab.node import Node
from nodeupgrade.adapters.containerd import ContainerdRuntime, metadata
from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.containerd.client import NAMESPACE, ContainerdClient
from nodeupgrade.adapters.cri import Connection
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.adapters.systemd import SystemdManager
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.domain.node.inventory import StoredHashes
from tests.contract.node.cripods import CriPods

IMAGE = nodeimages.BUSYBOX
CONTAINERD = "containerd.service"
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
        self.runtime = ContainerdRuntime(
            node.containerd_socket,
            processes=self.processes,
            files=HostFiles(node.root),
            prefix=tuple(node.command()),
        )
        self.client = ContainerdClient(Connection(node.containerd_socket, metadata=NAMESPACE))
        self.pods = CriPods(node.containerd_socket, IMAGE)
        self.services = systemd(node)

    @property
    def unit(self) -> UnitStatus:
        return self.services.status(CONTAINERD)

    def start_container(self, hashes: StoredHashes) -> ContainerId:
        return self.pods.start(hashes)

    def remove_container(self, container_id: ContainerId) -> None:
        self.pods.remove(container_id)

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        stored = self.record(container_id).extensions[metadata.EXTENSION]
        document = json.loads(stored.value)
        document["Metadata"]["LogPath"] += ".moved"
        self.write(container_id, stored.type_url, json.dumps(document, separators=(",", ":")).encode())

    def write(self, container_id: ContainerId, type_url: str, data: bytes) -> None:
        """Store any metadata whatever."""
        self.client.update_extensions(metadata.EXTENSION, [(container_id, Any(type_url=type_url, value=data))])

    def record(self, container_id: ContainerId) -> pb.Container:
        """The record as stored."""
        [record] = self.client.get_all([container_id])
        return record

    def restart(self) -> None:
        self.services.restart(CONTAINERD)

    def kill(self) -> None:
        """Kill the daemon, as the kernel would when memory runs out."""
        main = self.services.status(CONTAINERD).main_pid
        self.node.exec("kill", "-KILL", str(main))

    def close(self) -> None:
        """Leave the node as it was found."""
        self.runtime.wait_until_answering(60)
        self.pods.remove_all()
        self.runtime.close()


class SystemdWorld:
    """A service of our own on a node."""

    def __init__(self, node: Node, directory: str) -> None:
        self.node = node
        self.services = systemd(node)
        self.unit = UNIT
        self._file = f"{directory}/{UNIT}"
        node.write(self._file, UNIT_TEXT)
        self.services.reload()
        node.exec("systemctl", "enable", "--now", UNIT)

    def write_drop_in(self, text: str) -> str:
        path = f"/etc/systemd/system/{self.unit}.d/10-contract.conf"
        self.node.write(path, text)
        return path

    def kill(self) -> None:
        self.node.exec("kill", "-KILL", str(self.services.status(self.unit).main_pid))
        time.sleep(1)

    def systemctl(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``systemctl`` in the node, as a person would."""
        return self.node.exec("systemctl", *arguments, check=False)

    def close(self) -> None:
        """Leave the node as it was found."""
        self.services.unmask(self.unit)
        self.services.stop(self.unit)
        self.node.exec("systemctl", "disable", UNIT)
        (self.node.disk / self._file.lstrip("/")).unlink()
        self.node.exec("rm", "-rf", f"/etc/systemd/system/{UNIT}.d")
        self.services.reload()
