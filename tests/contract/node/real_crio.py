"""The real CRI-O of a node of the lab, whose kubelet is stopped."""

import json
from pathlib import Path

from e2e.lab.nodes import nodeimages
from e2e.lab.nodes.node import Node
from e2e.lab.runtimes.crio import SOCKET, STORAGE
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.crio.crio import CrioRuntime
from nodeupgrade.node.runtimes.crio.next_start import UNIT
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.crio_storage import go_json
from tests.contract.node.cripods import CriPods
from tests.contract.node.real import systemd

LIMIT = 60.0


class RealCrioWorld:
    """A RuntimeWorld on a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        socket = Path(f"{node.root}{SOCKET}")
        self.services = systemd(node)
        self.runtime = CrioRuntime(
            socket,
            processes=ProcessTable(node.root / "proc"),
            files=HostFiles(node.root),
            services=self.services,
            prefix=tuple(node.command()),
        )
        self.pods = CriPods(socket, nodeimages.BUSYBOX)

    @property
    def unit(self) -> UnitStatus:
        return self.services.status(UNIT)

    def start_container(self, hashes: StoredHashes, *, texts: tuple[str, ...] = ()) -> ContainerId:
        return self.pods.start(hashes, texts=texts)

    def remove_container(self, container_id: ContainerId) -> None:
        self.pods.remove(container_id)

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        path = self.node.root / STORAGE / container_id / "userdata/config.json"
        document = json.loads(path.read_bytes())
        document["process"]["env"] = [*document["process"].get("env", []), "MORE=1"]
        path.write_text(go_json(document, indent=True))

    def restart(self) -> None:
        self.services.restart(UNIT, seconds=120)

    def restart_in_error(self) -> None:
        program = self.node.root / "usr/local/sbin/runc"
        works = program.read_text()
        program.write_text("#!/bin/sh\nexit 1\n")
        try:
            self.restart()
            self.runtime.wait_until_answering(LIMIT)
        finally:
            program.write_text(works)

    def close(self) -> None:
        """Leave the node as it was found."""
        self.runtime.wait_until_answering(LIMIT)
        self.pods.remove_all()
        self.runtime.close()
