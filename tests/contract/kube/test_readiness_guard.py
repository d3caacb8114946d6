"""The readiness guard on a real API server: what a kubelet may not report while it is guarded, and all it still may."""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.domain.wire import Json, timestamp
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

GUARD = ("configmap", "nodeupgrade-readiness-guard", "--namespace=nodeupgrade-system")
DENIED = "has not probed this pod yet"
BOUND_SECONDS = 60.0


@dataclass
class Pod:
    """A pod of a node of its own, reported upon as that node's kubelet does."""

    server: ApiServer
    node: str = field(default_factory=lambda: f"node-{uuid.uuid4().hex[:8]}")
    status: Json = field(default_factory=dict)

    def create(self) -> None:
        containers = [{"name": name, "image": "registry.k8s.io/pause:3.9"} for name in ("web", "logger")]
        init = [{"name": "mesh", "image": "registry.k8s.io/pause:3.9", "restartPolicy": "Always"}]
        spec = {"nodeName": self.node, "containers": containers, "initContainers": init}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.node, "namespace": "default"},
            "spec": spec,
        }
        self.server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(body))
        self.status = {
            "phase": "Running",
            "conditions": conditions("True"),
            "containerStatuses": [running("web"), running("logger")],
            "initContainerStatuses": [running("mesh")],
        }
        assert self.report(self.status) == ""

    def report(self, status: Json, user: str | None = None) -> str:
        """Write a status as a kubelet does, and return why it was denied; empty when it was not."""
        patch = json.dumps({"status": status})
        return self.server.kubectl_as(
            f"system:node:{self.node}" if user is None else user,
            "patch", "pod", self.node, "--namespace=default", "--subresource=status", "--type=strategic", "-p", patch,
        )  # fmt: skip

    def unready(self) -> Json:
        changed = copy.deepcopy(self.status)
        changed["conditions"] = conditions("False")
        changed["containerStatuses"][0] |= {"ready": False, "started": False}
        return changed

    def guard(self, until: datetime | None) -> None:
        """Guard the node, or no more, and wait until the API server acts upon it."""
        data = {self.node: None if until is None else timestamp(until.replace(microsecond=0))}
        self.server.kubectl("patch", *GUARD, "--type=merge", "-p", json.dumps({"data": data}))

    def wait_until_guarded(self) -> None:
        """What passed before the guard was in force is taken back, or there would be nothing left to deny."""
        wait(lambda: self.report(self.status) == "" and DENIED in self.report(self.unready()))


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
    api_server.kubectl("apply", "-k", str(ROOT / "overlays/readiness-guard"))
    reported = ["pods", "pods/status", "nodes", "nodes/status"]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "kubelets-report"},
        "rules": [{"apiGroups": [""], "resources": reported, "verbs": ["get", "patch", "delete"]}],
    }  # fmt: skip
    binding = {
        "apiVersion": role["apiVersion"], "kind": "ClusterRoleBinding", "metadata": {"name": "kubelets-report"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubelets-report"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }  # fmt: skip
    documents = json.dumps({"apiVersion": "v1", "kind": "List", "items": [role, binding]})
    assert api_server.kubectl_as("", "apply", "-f", "-", stdin=documents) == ""
    return api_server


@pytest.fixture
def pod(server: ApiServer) -> Iterator[Pod]:
    made = Pod(server)
    made.create()
    yield made
    made.guard(None)


@pytest.fixture
def guarded(pod: Pod) -> Pod:
    pod.guard(datetime.now(UTC) + timedelta(hours=1))
    pod.wait_until_guarded()
    return pod


def test_without_a_guard_everything_passes(pod: Pod) -> None:
    assert pod.report(pod.unready()) == ""


def test_a_kubelet_that_has_not_probed_yet_is_told_to_try_again(guarded: Pod) -> None:
    assert DENIED in guarded.report(guarded.unready())
    assert guarded.report(guarded.status | {"hostIP": "10.0.0.7"}) == ""


CHANGES = {
    "a container exits": lambda s: s["containerStatuses"][0].update(state={"terminated": {"exitCode": 1}}),
    "a container restarts": lambda s: s["containerStatuses"][1].update(containerID="containerd://fresh"),
    "a container waits": lambda s: s["containerStatuses"][1].update(state={"waiting": {"reason": "CrashLoopBackOff"}}),
    "a sidecar exits": lambda s: s["initContainerStatuses"][0].update(state={"terminated": {"exitCode": 1}}),
    "a sidecar restarts": lambda s: s["initContainerStatuses"][0].update(containerID="containerd://fresh"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_real_failure_passes_at_once(guarded: Pod, change: object) -> None:
    failing = guarded.unready()
    assert callable(change)
    change(failing)
    for status in failing["containerStatuses"] + failing["initContainerStatuses"]:
        if "running" not in status["state"]:
            status["state"]["running"] = None  # as a strategic merge patch takes the old state away
    assert guarded.report(failing) == ""


def test_a_pod_that_is_being_deleted_passes(guarded: Pod) -> None:
    assert guarded.server.kubectl_as("", "delete", "pod", guarded.node, "--namespace=default", "--wait=false") == ""
    assert guarded.report(guarded.unready()) == ""


def test_other_nodes_and_other_writers_pass(guarded: Pod, server: ApiServer) -> None:
    other = Pod(server)
    other.create()
    assert other.report(other.unready()) == ""
    assert guarded.report(guarded.unready(), user="") == ""


def test_a_node_stays_ready_until_its_kubelet_has_looked(guarded: Pod) -> None:
    server, name = guarded.server, guarded.node
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "web"}}}
    assert server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(node)) == ""

    def report(ready: str, kubelet: str = name) -> str:
        status = {"conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "True"}]}
        words = "patch", "node", name, "--subresource=status", "--type=strategic", "-p", json.dumps({"status": status})
        return server.kubectl_as(f"system:node:{kubelet}" if kubelet else "", *words)

    assert report("False") == ""  # it never was Ready
    wait(lambda: report("True") == "" and "only just started" in report("False"))
    assert report("True") == ""
    assert report("Unknown", kubelet="") == ""  # the node controller's word
    assert report("True") == ""
    guarded.guard(None)
    wait(lambda: report("False") == "")


def test_the_guard_ends_by_itself(pod: Pod) -> None:
    until = datetime.now(UTC) + timedelta(seconds=8)
    pod.guard(until)
    pod.wait_until_guarded()
    assert datetime.now(UTC) < until
    wait(lambda: pod.report(pod.unready()) == "")
    assert datetime.now(UTC) >= until - timedelta(seconds=1)  # the API server writes whole seconds


def test_a_guard_that_says_nonsense_guards_nothing(pod: Pod) -> None:
    pod.server.kubectl("patch", *GUARD, "--type=merge", "-p", json.dumps({"data": {pod.node: "tomorrow"}}))
    for _ in range(20):
        assert pod.report(pod.status | {"conditions": conditions("True")}) == ""
    assert pod.report(pod.unready()) == ""


def running(name: str) -> Json:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    common = {"image": "pause", "imageID": "pause", "ready": True, "started": True, "restartCount": 0}
    return {"name": name, "containerID": f"containerd://{name}", "state": state, **common}


def conditions(ready: str) -> list[Json]:
    """The transition time stays that of the first attempt, as a kubelet's does."""
    return [
        {"type": kind, "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Ready", "ContainersReady")
    ]


def wait(holds: object) -> None:
    assert callable(holds)
    deadline = time.monotonic() + BOUND_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
