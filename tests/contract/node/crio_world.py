"""The adapter of CRI-O on recorded storage: real files, real processes, and a server that answers as CRI-O does.

No CRI-O can be had on every machine. What is not shown here, a real node has to show: see docs/adding-a-runtime.md.
"""

import hashlib
import itertools
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import cast

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.crio.crio import CrioRuntime
from nodeupgrade.node.runtimes.crio.next_start import UNIT
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.crio_server import VERSION, CrioServer
from tests.contract.node.crio_storage import CREATED_BY_DAEMON, Storage, go_json, specification
from tests.contract.node.cripods import HASH, WITHOUT_RESOURCES

PROGRAM = "/usr/bin/crio"
GRAPH = "/graph"
"""Root of the storage, as everybody on the node names it."""
COMMAND = (PROGRAM, "--config", "/etc/crio/crio.conf")
CONMON = """#!/bin/sh
sleep 100000 >&- &
echo $! > "$0.$2"
echo written
wait
"""
PRINTS = """
case "$*" in
    *--version) echo 'crio version {version}' ;;
    *) cat '{root}/etc/crio/crio.conf' ;;
esac
"""
PRINTED = """\
[crio]
# Path to the "root directory". CRI-O stores all of its data in this directory.
root = "{root}"
# runroot = "/run/containers/storage"
# storage_driver = "overlay"
[crio.api]
# listen = "/var/run/crio/crio.sock"
[crio.runtime]
default_runtime = "{handler}"
[crio.runtime.runtimes.{handler}]
runtime_path = "/usr/sbin/{handler}"
runtime_root = "/run/runc"
"""
RUNS = """\
[crio]
  root = "{root}"
  runroot = "/run/containers/storage"
  storage_driver = "overlay"
  [crio.api]
    listen = "/var/run/crio/crio.sock"
  [crio.runtime]
    default_runtime = "runc"
    [crio.runtime.runtimes]
      [crio.runtime.runtimes.runc]
        runtime_path = "/usr/sbin/runc"
        runtime_root = "/run/runc"
"""


class Table(ProcessTable):
    """The real processes; the one that answers on the socket is shown with CRI-O's command line."""

    def arguments(self, pid: int) -> tuple[str, ...] | None:
        return COMMAND if pid == os.getpid() else super().arguments(pid)


class Services:
    """The unit of this CRI-O, and nothing else."""

    def __init__(self, world: "CrioWorld") -> None:
        self._world = world
        self.done: list[str] = []

    def status(self, unit: str) -> UnitStatus:
        assert unit == UNIT
        up = self._world.server is not None
        return UnitStatus(
            name=UNIT, load_state="loaded", active_state="active" if up else "inactive",
            sub_state="running" if up else "dead", main_pid=os.getpid() if up else 0, program=PROGRAM, command=COMMAND,
            kill_mode="process",
        )  # fmt: skip

    def start(self, unit: str, *, wait: bool = True) -> None:
        self.done.append(f"start {unit}")
        self._world.start()

    def stop(self, unit: str) -> None:
        self.done.append(f"stop {unit}")
        self._world.stop()


class CrioWorld:
    """A RuntimeWorld below a directory of its own, which plays the node's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes = Table()
        self.storage = Storage(root / "graph", GRAPH, find=self.processes.process)
        self.printed, self.runs = PRINTED.format(root=GRAPH, handler="runc"), RUNS.format(root=GRAPH)
        self.server: CrioServer | None = None
        self.services = Services(self)
        self.socket = root / "crio.sock"
        self._numbers = itertools.count()
        self._conmons: dict[str, subprocess.Popen[bytes]] = {}
        (root / "etc/crio").mkdir(parents=True)
        self.print(self.printed)
        self._conmon = root / "conmon"
        self._conmon.write_text(CONMON)
        self._conmon.chmod(0o755)
        self.runtime = CrioRuntime(
            self.socket,
            processes=self.processes,
            files=HostFiles(root),
            services=cast("ServiceManager", self.services),
            prefix=("/bin/sh", "-c", PRINTS.format(version=VERSION, root=root)),
            timeout=120.0,  # what answers is this process, which may wait long for its turn
        )
        self.start()

    @property
    def unit(self) -> UnitStatus:
        return self.services.status(UNIT)

    def print(self, text: str) -> None:
        """Have the program on disk print this configuration."""
        (self.root / "etc/crio/crio.conf").write_text(text)

    def start_container(self, hashes: StoredHashes, *, shared: bool = True, texts: tuple[str, ...] = ()) -> ContainerId:
        """Start a pod with one container, which has its PIDs for itself or shares them with the pod's own process."""
        number = next(self._numbers)
        identity, sandbox = (hashlib.sha256(f"{kind}{number}".encode()).hexdigest() for kind in "cs")
        stored = {HASH: hashes.container, WITHOUT_RESOURCES: hashes.without_resources}
        annotations = {"io.kubernetes.container.restartCount": "0"}
        annotations |= {key: value for key, value in stored.items() if value is not None}
        self.storage.create_sandbox(sandbox, f"pod{number}", f"uid{number}", self._run(sandbox) if shared else 0)
        specified = specification(identity, annotations, sandbox=sandbox, env=texts)
        specified["annotations"] = dict.fromkeys(stored, "".join(texts)) | specified["annotations"]
        self.storage.create(identity, specified, self._run(identity))
        assert self.server is not None
        made = replace(self.storage.load()[identity], created=CREATED_BY_DAEMON)
        self.server.loaded = self.server.loaded | {identity: made}
        return ContainerId(identity)

    def process(self, container_id: str) -> Process:
        """The first process of a container."""
        pid = int(Path(f"{self._conmon}.{container_id}").read_text())
        found = self.processes.process(pid)
        assert found is not None
        return found

    def remove_container(self, container_id: ContainerId) -> None:
        assert self.server is not None
        sandbox = self.server.loaded.pop(container_id).sandbox
        own = self.storage.sandboxes.pop(sandbox)["pid"]
        self.storage.delete(container_id)
        self.storage.delete(sandbox)
        self.end(container_id)
        if own:
            self.end(sandbox)

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        path = self.storage.directory(container_id) / "config.json"
        document = json.loads(path.read_text())
        document["process"]["env"].append("MORE=1")
        path.write_text(go_json(document, indent=True))

    def restart(self) -> None:
        self.stop()
        self.start()

    def restart_in_error(self) -> None:
        self.storage.handler_fails = True
        self.restart()
        self.storage.handler_fails = False

    def start(self) -> None:
        """Start it, unless it runs."""
        self.server = self.server or CrioServer(self.socket, self.storage, lambda: self.runs)

    def stop(self) -> None:
        """Stop it, unless it is stopped."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def end(self, container_id: str) -> None:
        """End a container's process, and its conmon with it."""
        subprocess.run(["kill", "-KILL", str(self.process(container_id).pid)], check=True)
        self._conmons.pop(container_id).wait()

    def kill_conmon(self, container_id: ContainerId) -> None:
        """Kill a container's conmon; whoever adopts the container's process is none."""
        self._conmons[container_id].kill()
        self._conmons[container_id].wait()

    def close(self) -> None:
        """End every process."""
        self.runtime.close()
        self.stop()
        for identity, conmon in self._conmons.items():
            subprocess.run(["kill", "-KILL", Path(f"{self._conmon}.{identity}").read_text().strip()], check=False)
            conmon.kill()
            conmon.wait()

    def _run(self, identity: str) -> int:
        # $2 of the script is the id, so its file is named after it.
        conmon = subprocess.Popen([str(self._conmon), "-c", identity], stdout=subprocess.PIPE)
        self._conmons[identity] = conmon
        assert conmon.stdout is not None
        with conmon.stdout:
            assert conmon.stdout.readline() == b"written\n"
        return int(Path(f"{self._conmon}.{identity}").read_text())
