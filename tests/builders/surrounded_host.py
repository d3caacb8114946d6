"""Builds a simulated host with an API server."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kubelet import Answer, AsKubelet
from tests.builders.sound import facts, kubelet, unit
from tests.doubles.node import SimulatedNode, pod_json

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
ROOT = "21 1 253:0 / / rw shared:1 - ext4 /dev/vda1 rw"
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid_web.slice"
GROUPS = "/sys/fs/cgroup"
ALL = b"cpuset cpu io memory hugetlb pids rdma misc\n"
FILES: Mapping[str, bytes] = {
    "/proc/1/mountinfo": ROOT.encode(),
    "/proc/sys/kernel/hostname": b"node-a\n",
    f"{GROUPS}/cgroup.controllers": ALL,
    f"{GROUPS}/kubepods.slice/cgroup.controllers": ALL,
    f"{GROUPS}/kubepods.slice/memory.max": b"8589934592\n",
    f"{GROUPS}/kubepods.slice/memory.current": b"5000\n",
    f"{GROUPS}/kubepods.slice/memory.stat": b"anon 3000\ninactive_file 1500\nbroken\n",
    f"{GROUPS}/{POD}/cgroup.controllers": ALL,
    f"{GROUPS}/system.slice/kubelet.service/cgroup.procs": b"7\n8\n9\n10\n",
    "/proc/8/stat": b"8 (journalctl) S 7 8 8 0 -1",
    "/proc/9/stat": b"9 (gluster (fs) d) S 1 9 9 0 -1",
}


class Server:
    """The API server as the kubelet's credentials see it."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def read(self, path: str) -> Answer:
        self.asked.append(path)
        if not self.answers:
            raise Transient("nobody answers")
        return self.answers.pop(0)

    def try_patch(self, path: str, patch: object) -> Answer:
        raise AssertionError(f"{path} is nothing to be changed: {patch}")


class Host:
    """The files and services of a simulated node, and an API server."""

    def __init__(self, server: Server | None = None, files: Mapping[str, bytes] = FILES) -> None:
        self.node_itself = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
        self.node_itself.disk.update(files)
        self.files, self.services = self.node_itself.files, self.node_itself.services
        self.kubelet, self._server = self.node_itself.kubelet, server
        self.packages, self.clock = self.node_itself.packages, self.node_itself.ports.clock

    def node(self, endpoint: str, runtime: str) -> Node:
        raise AssertionError(f"{endpoint} is none of its business")

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> AsKubelet:
        assert (str(kubeconfig), pid > 0) == (KUBECONFIG, True)
        if self._server is None:
            raise StepFailed("no credentials")
        return self._server


def known(**given: Any) -> NodeFacts:
    return facts(kubelet=kubelet(unit=unit("kubelet.service", control_group="/system.slice/kubelet.service")), **given)
