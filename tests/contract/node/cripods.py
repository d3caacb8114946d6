"""Pods as a kubelet makes them, made through the CRI without a kubelet."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node import wire

SERVICE = "/runtime.v1.RuntimeService/"
HASH = "io.kubernetes.container.hash"
WITHOUT_RESOURCES = "io.kubernetes.container.hashWithoutResources"
POD_NETWORK, NODE_NETWORK = 0, 2
PID_PER_CONTAINER = 1
CGROUP_PARENT = "/contract.slice"
"""A slice, since nothing else can be one where systemd makes the groups."""


@dataclass(slots=True)
class CriPods:
    """Makes host-network pods with one container each, and removes them."""

    socket: Path  # of the runtime
    image: str  # one the runtime holds; it has ``sleep`` and ``sh``
    made: dict[ContainerId, str] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def start(
        self,
        hashes: StoredHashes,
        *,
        command: tuple[str, ...] = ("/bin/sh", "-c", "sleep 100000"),
        texts: tuple[str, ...] = (),
    ) -> ContainerId:
        """Start a pod with one container that stores these hashes, and texts wherever its author may have them."""
        number = next(self._numbers)
        labels = {
            "io.kubernetes.pod.name": f"pod{number}",
            "io.kubernetes.pod.uid": f"uid{number}",
            "io.kubernetes.pod.namespace": "contract",
        }
        stored = {HASH: hashes.container, WITHOUT_RESOURCES: hashes.without_resources}
        namespaces: wire.Fields = {1: NODE_NETWORK, 2: PID_PER_CONTAINER}
        sandbox: wire.Fields = {
            1: {1: f"pod{number}", 2: f"uid{number}", 3: "contract"},
            3: "/var/log",  # only a kubelet makes the usual folder
            6: wire.entries(labels),
            7: wire.entries(dict.fromkeys(stored, "".join(texts)) | {"kubernetes.io/config.source": "api"}),
            8: {1: CGROUP_PARENT, 2: {1: namespaces}},
        }
        sandbox_id = wire.first_string(wire.call(self.socket, f"{SERVICE}RunPodSandbox", {1: sandbox}))
        annotations = {key: value for key, value in stored.items() if value is not None}
        container: wire.Fields = {
            1: {1: "main"},
            2: {1: self.image},
            3: [*command, *texts],
            5: "/".join(("", *texts)),
            6: wire.entries({f"T{number}": text for number, text in enumerate(texts)}),
            9: wire.entries(labels | {"io.kubernetes.container.name": "main"}),
            10: wire.entries(annotations | {"io.kubernetes.container.terminationMessagePath": "".join(texts)}),
            11: f"contract-pod{number}.log",
            15: {2: {3: namespaces}},
        }
        made = wire.call(self.socket, f"{SERVICE}CreateContainer", {1: sandbox_id, 2: container, 3: sandbox})
        container_id = ContainerId(wire.first_string(made))
        wire.call(self.socket, f"{SERVICE}StartContainer", {1: container_id})
        self.made[container_id] = sandbox_id
        return container_id

    def remove(self, container_id: ContainerId) -> None:
        """Kill and remove the container and its pod."""
        sandbox_id = self.made.pop(container_id)
        for method, target in (
            ("StopContainer", container_id),
            ("RemoveContainer", container_id),
            ("StopPodSandbox", sandbox_id),
            ("RemovePodSandbox", sandbox_id),
        ):
            wire.call(self.socket, SERVICE + method, {1: target})

    def remove_all(self) -> None:
        """Kill and remove everything made here."""
        for container_id in list(self.made):
            self.remove(container_id)
