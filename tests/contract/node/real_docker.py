"""The Docker of a node whose kubelet is stopped, as a world."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from e2e.lab.nodes import nodeimages
from e2e.lab.nodes.node import Node
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.docker.docker import DockerRuntime
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.real import systemd

DOCKER = "docker.service"
DAEMON_JSON = "/etc/docker/daemon.json"
CONTAINERS = PurePosixPath("/var/lib/docker/containers")
HASH, WITHOUT_RESOURCES = (f"annotation.io.kubernetes.container.{name}" for name in ("hash", "hashWithoutResources"))
LIMIT = 60.0


class DockerWorld:
    """Makes pods on the node's network as dockershim names and labels them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.files = HostFiles(node.root)
        self.processes = ProcessTable(node.root / "proc")
        self.services = systemd(node)
        self.runtime = DockerRuntime(
            self.files.seen(PurePosixPath("/var/run/docker.sock")),
            processes=self.processes,
            services=self.services,
            files=self.files,
            prefix=tuple(node.command()),
        )
        self._made: dict[ContainerId, str] = {}
        self._numbers = itertools.count()

    @property
    def unit(self) -> UnitStatus:
        return self.services.status(DOCKER)

    def start_container(self, hashes: StoredHashes, *, texts: tuple[str, ...] = ()) -> ContainerId:
        number = next(self._numbers)
        pod = {"pod.name": f"pod{number}", "pod.uid": f"uid{number}", "pod.namespace": "contract"}
        source = {"annotation.kubernetes.io/config.source": "api"}
        sandbox = self._run("POD", pod, "podsandbox", source, "--network=host")
        stored = {HASH: hashes.container, WITHOUT_RESOURCES: hashes.without_resources}
        hashes_given = {key: value for key, value in stored.items() if value is not None}
        more = {
            **hashes_given,
            "io.kubernetes.sandbox.id": sandbox,
            "annotation.io.kubernetes.container.restartCount": "0",
            **{f'{text}"{HASH}': str(hashes.container) for text in texts},  # from its image
        }
        options = [f"--env=T={text}" for text in texts] + [f"--workdir=/{text}" for text in texts[:1]]
        made = ContainerId(self._run("main", pod, "container", more, f"--network=container:{sandbox}", *options))
        self._made[made] = sandbox
        return made

    def remove_container(self, container_id: ContainerId) -> None:
        self.docker("rm", "--force", container_id, self._made.pop(container_id))

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        content = self.content(container_id)
        self.write(container_id, content.replace('"Tty":false', '"Tty":true'))

    def content(self, container_id: ContainerId) -> str:
        """What is stored about a container."""
        return self.path(container_id).read_text()

    def write(self, container_id: ContainerId, content: str) -> None:
        """Store anything about a container, with dockerd stopped."""
        self.node.exec("systemctl", "stop", "docker.socket", DOCKER)
        self.path(container_id).write_text(content)

    def path(self, container_id: ContainerId) -> Path:
        """The file in which dockerd keeps a container."""
        return self.node.disk / str(CONTAINERS).lstrip("/") / container_id / "config.v2.json"

    def configure(self, **settings: Any) -> None:
        """Change dockerd's configuration on the disk."""
        found = json.loads((self.node.disk / DAEMON_JSON.lstrip("/")).read_text())
        self.node.write(DAEMON_JSON, json.dumps(found | settings, indent=2))

    def restart(self) -> None:
        self.services.restart(DOCKER, seconds=120)

    def restart_in_error(self) -> None:
        self.restart()  # it asks the shims, which know

    def docker(self, *arguments: str) -> str:
        """Run ``docker`` in the node, and start dockerd if it is stopped."""
        self.runtime.wait_until_answering(LIMIT)
        return self.node.exec("docker", *arguments).stdout.strip()

    def close(self) -> None:
        """Leave the node as it was found."""
        self.node.exec("systemctl", "reset-failed", DOCKER, "docker.socket", check=False)
        for container_id in list(self._made):
            self.remove_container(container_id)

    def _run(self, name: str, pod: Mapping[str, str], kind: str, more: Mapping[str, str], *options: str) -> str:
        of_pod = {f"io.kubernetes.{key}": value for key, value in pod.items()}
        labels = {"io.kubernetes.docker.type": kind, "io.kubernetes.container.name": name, **of_pod, **more}
        named = f"k8s_{name}_{pod['pod.name']}_contract_{pod['pod.uid']}_0"
        given = [f"--label={key}={value}" for key, value in labels.items()]
        command = ("sleep", "100000")
        return self.docker("run", "--detach", f"--name={named}", *given, *options, nodeimages.BUSYBOX, *command)
