"""One lab of a single node that test modules use one after the other, because to boot one takes a minute.

Each module gets a node of the same kubelet version and with fresh pods, and has to leave the node as it found it: what
counts is compared with how it was when the lab was new. A node on which a test failed, or that is not as it was, is
not used again: the next module gets a new lab.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import Cluster
from e2e.faults.oracle import left_over
from e2e.lab import Lab
from e2e.lab.cluster import deploy, podstatus
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload

WATCHED = ("etc", "usr/lib/systemd", "usr/local", nodefiles.KUBELET_CONFIG.lstrip("/"))
"""Where people and packages configure a node, below its root."""
STATIC_POD = f"{nodefiles.STATIC_PODS}/static-web.json"

State = dict[str, str]


class NotAsItWasError(LabError):
    """A module did not leave the shared node as it found it."""


@dataclass
class SharedNode:
    """The lab, if there is one now."""

    make: Callable[[], Lab]  # creates a new lab of one node
    _cluster: Cluster | None = None
    _when_new: State | None = None

    def lend(self, *, pods: int) -> Cluster:
        """Return a node with the kubelet version of a new one, the operator, so many fresh pods and a static pod."""
        if self._cluster is None:
            self._cluster = Cluster.with_operator(self.make(), pods=pods)
            self._when_new = state(self._cluster)
            return self._cluster
        if self._cluster.kubelet_version() != self._cluster.lab.spec.kubelet:
            _restore_kubelet(self._cluster)
        _restore_static_pod(self._cluster)
        wanted = workload.mixed_workload(pods, self._cluster.node.name, kubelet=self._cluster.lab.spec.kubelet)
        workload.renew(self._cluster.lab, wanted, keep=podstatus.is_fresh)
        return self._cluster

    def take_back(self) -> None:
        """Remove what a test may leave: NodeUpgrades that have ended. Whatever else is different is an error.

        Raises:
            NotAsItWasError: the lab is gone, and the message says what is different.
        """
        if self._cluster is None or self._when_new is None:
            return
        try:
            self._cluster.lab.kubectl("delete", "nodeupgrades", "--all", "--wait=true", timeout=180)
            self._cluster.wait_without_agent()
            self._cluster.lab.kubectl("delete", "nodeupgradetasks", "--all", "--wait=true", timeout=60)
            found = differences(self._when_new, state(self._cluster))
        except LabError as error:
            found = [str(error)]
        if found:
            self.down()
            raise NotAsItWasError(f"the shared node is not as it was: {'; '.join(found)}")

    def down(self) -> None:
        """Remove the lab, if there is one."""
        if self._cluster is not None:
            self._cluster.lab.down()
        self._cluster = self._when_new = None


def state(cluster: Cluster) -> State:
    """Return what a test must leave as it was, by its name: configuration, and objects of the API."""
    left = ((f"left behind: {name}", "") for name in left_over(cluster.node))
    return dict((*_files(cluster), *_objects(cluster), *left))


def differences(before: State, after: State) -> list[str]:
    """List what is not as it was."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [f"{name} ({before.get(name, 'was not there')} → {after.get(name, 'is gone')})" for name in names]


def _files(cluster: Cluster) -> Iterator[tuple[str, str]]:
    disk = cluster.node.disk
    for place in WATCHED:
        for path in (disk / place, *(disk / place).rglob("*")):
            ours = path.is_relative_to(disk / nodefiles.STATIC_PODS.lstrip("/"))  # a run to another era rewrites them
            if (path.is_symlink() or path.is_file()) and not ours:
                yield f"/{path.relative_to(disk)}", _content(path)


def _content(path: Path) -> str:
    if path.is_symlink():
        return f"→ {path.readlink()}"
    return f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def _objects(cluster: Cluster) -> Iterator[tuple[str, str]]:
    node = cluster.node_object()
    yield "its labels", str(node["metadata"]["labels"])
    yield "its annotations", str([key for key in node["metadata"].get("annotations", {}) if "nodeupgrade.dev" in key])
    yield "its cordon and taints", str([node["spec"].get("unschedulable"), node["spec"].get("taints")])
    for space in cluster.lab.api.list("namespaces"):
        yield f"namespace {space['metadata']['name']}", ""
    for body in cluster.lab.api.list("configmaps", namespace=deploy.NAMESPACE):
        yield f"config map {body['metadata']['name']}", str(body.get("data", {}))


def _restore_kubelet(cluster: Cluster) -> None:
    """Swap the kubelet as people do; what that restarts is fresh again afterwards."""
    cluster.lab.kubectl("delete", "pods", "--all", "--namespace", workload.NAMESPACE, timeout=180)
    version = cluster.lab.spec.kubelet
    cluster.node.swap_naively(version)
    wait_until("the version", lambda: cluster.kubelet_version() == version, timeout=60)
    cluster.wait_settled()
    deploy.wait_available(cluster.lab)


def _restore_static_pod(cluster: Cluster) -> None:
    manifest = cluster.node.disk / STATIC_POD.lstrip("/")
    if manifest.read_text() == workload.static_pod():
        return
    manifest.unlink()
    wait_until("the end of the static pod", lambda: not cluster.runs("static-web") or None, timeout=120)
    cluster.node.write(STATIC_POD, workload.static_pod())
    wait_until("the static pod", lambda: cluster.runs("static-web") or None, timeout=120)
