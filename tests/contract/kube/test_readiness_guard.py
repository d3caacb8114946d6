"""The readiness guard on a real API server: what a kubelet may not report while it is guarded, and all it still may."""

import copy
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.kubelet.probe_delay import exposure
from nodeupgrade.node.agent.guard_trials import InForce, NotInForce, Trial, node_trial, pod_trials
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

GUARD = ("configmap", "nodeupgrade-readiness-guard", "--namespace=nodeupgrade-system")
DENIED = "has not probed this pod yet"
BOUND_SECONDS = 180.0


@dataclass
class Pod:
    """A pod of a node of its own, reported upon as that node's kubelet does."""

    server: ApiServer
    node: str = field(default_factory=lambda: f"node-{uuid.uuid4().hex[:8]}")
    status: Json = field(default_factory=dict)

    def create(self, probes: Mapping[str, Json] | None = None, gates: Sequence[str] = ()) -> None:
        """Create it as Ready; ``probes`` by container: ``web``, ``logger``, ``mesh`` (a sidecar), ``setup`` (init)."""
        containers = [container(name, probes) for name in ("web", "logger")]
        sidecar = container("mesh", probes) | {"restartPolicy": "Always"}
        spec = {
            "nodeName": self.node,
            "containers": containers,
            "initContainers": [container("setup", None), sidecar],
            "readinessGates": [{"conditionType": gate} for gate in gates],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.node, "namespace": "default"},
            "spec": spec,
        }
        assert self.server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(body)) == ""
        self.status = {
            "phase": "Running",
            "conditions": conditions("True"),
            "containerStatuses": [running("web"), running("logger")],
            "initContainerStatuses": [running("mesh")],
        }
        assert self.report(self.status) == ""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/default/pods/{self.node}"

    def report(self, status: Json, kubelet: str | None = None) -> str:
        """Write a status as a kubelet does, and return why it was denied; empty when it was not."""
        return denied(self.server, f"{self.path}/status", status, self.node if kubelet is None else kubelet)

    def unready(self) -> Json:
        changed = copy.deepcopy(self.status)
        changed["conditions"] = conditions("False")
        changed["containerStatuses"][0] |= {"ready": False, "started": False}
        return changed

    def served(self) -> Json:
        """Return the pod as the API server has it, defaults included."""
        return self.server.read(self.path)

    def guard(self, runs_by: datetime | None) -> None:
        """Say by when the new kubelet runs, or guard no more. The API server acts upon it a moment later."""
        guard(self.server, self.node, runs_by)

    def wait_until_guarded(self) -> None:
        """What passed before the guard was in force is taken back, or there would be nothing left to deny."""
        wait(lambda: self.report(self.status) == "" and DENIED in self.report(self.unready()))

    def wait_until_not_guarded(self) -> None:
        """A report that is denied changes nothing, so it can be made again and again."""
        wait(lambda: self.report(self.unready()) == "")


@pytest.fixture(scope="module")
def server(api_server: ApiServer) -> ApiServer:
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
# Probes so slow that no wait of a test comes near a difference that any part of them makes.
HOURS = {"exec": {"command": ["true"]}, "periodSeconds": 10_000, "timeoutSeconds": 5_000}
MORE = HOURS | {"successThreshold": 2}
PROBED: dict[str, dict[str, Json]] = {
    "readiness": {"web": {"readinessProbe": HOURS}},
    "every success takes a period": {"web": {"readinessProbe": MORE}},
    "startup": {"web": {"startupProbe": HOURS}},
    "startup, then readiness": {"logger": {"startupProbe": HOURS, "readinessProbe": MORE}},
    "the slowest container": {"web": {"readinessProbe": HOURS}, "logger": {"readinessProbe": MORE}},
    "a sidecar": {"web": {"readinessProbe": HOURS}, "mesh": {"startupProbe": HOURS, "readinessProbe": HOURS}},
    "liveness does not matter": {"web": {"livenessProbe": HOURS}},
}
SLACK = timedelta(seconds=1_000)


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
    assert guarded.report(guarded.unready(), kubelet="") == ""


def test_a_readiness_gate_that_closes_passes(server: ApiServer) -> None:
    pod = Pod(server)
    pod.create(gates=["example.com/registered"])
    pod.status["conditions"].append({"type": "example.com/registered", "status": "True"})
    assert pod.report(pod.status) == ""
    pod.guard(datetime.now(UTC) + timedelta(hours=1))
    pod.wait_until_guarded()
    closed = pod.unready()
    closed["conditions"].append({"type": "example.com/registered", "status": "False"})
    assert pod.report(closed) == ""
    pod.guard(None)


def test_a_node_stays_ready_until_its_kubelet_has_looked(guarded: Pod) -> None:
    server, name = guarded.server, guarded.node
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": "web"}}}
    assert server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(node)) == ""

    def report(ready: str, kubelet: str = name) -> str:
        status = {"conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "True"}]}
        return denied(server, f"/api/v1/nodes/{name}/status", status, kubelet)

    assert report("True") == ""
    assert report("False") == ""  # the guard of its pods is not its own
    guard(server, f"node_{name}", datetime.now(UTC) + timedelta(hours=1))
    wait(lambda: report("True") == "" and "only just started" in report("False"))
    assert report("True") == ""
    assert report("Unknown", kubelet="") == ""  # the node controller's word
    assert report("True") == ""
    guard(server, f"node_{name}", datetime.now(UTC) - timedelta(seconds=1))
    wait(lambda: report("False") == "")
    guard(server, f"node_{name}", None)


def test_the_guard_ends_by_itself(pod: Pod) -> None:
    """A pod without probes is guarded for some seconds after its new kubelet runs."""
    guarded = timedelta(seconds=20)
    while True:  # a machine that is very busy comes too late to see the guard in force
        until = datetime.now(UTC).replace(microsecond=0) + guarded
        pod.guard(until - exposure(pod.served()))
        while pod.report(pod.unready()) == "" and datetime.now(UTC) < until:
            assert pod.report(pod.status) == ""
        if datetime.now(UTC) < until:
            break
        guarded *= 2
        assert guarded < timedelta(hours=1)
    pod.wait_until_not_guarded()
    assert datetime.now(UTC) >= until


@pytest.mark.parametrize("probes", PROBED.values(), ids=PROBED.keys())
def test_each_pod_is_guarded_for_as_long_as_its_probes_need(server: ApiServer, probes: dict[str, Json]) -> None:
    """The policy and ``kubelet/probe_delay.py`` compute the same."""
    pod = Pod(server)
    pod.create(probes)
    began = datetime.now(UTC) - exposure(pod.served())
    pod.guard(began + SLACK)
    pod.wait_until_guarded()
    pod.guard(began)
    pod.wait_until_not_guarded()
    assert datetime.now(UTC) < began + exposure(pod.served()) + SLACK
    pod.guard(None)


def test_a_pod_that_was_ready_for_a_moment_is_guarded_all_the_same(server: ApiServer) -> None:
    """With several containers a fresh kubelet may report Ready anew before it has probed all of them."""
    pod = Pod(server)
    pod.create({"web": {"readinessProbe": HOURS}})
    runs_by = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    pod.guard(runs_by)
    pod.wait_until_guarded()
    pod.status["conditions"] = conditions("True", runs_by + timedelta(seconds=1))
    assert pod.report(pod.status) == ""
    assert DENIED in pod.report(pod.unready())
    pod.guard(None)


def test_what_the_agent_tries_tells_whether_the_guard_is_in_force(server: ApiServer) -> None:
    """And it changes nothing, whatever comes of it."""
    pod = Pod(server)
    pod.create({"web": {"readinessProbe": HOURS}})
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": pod.node, "labels": {"pool": "web"}}}
    assert server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(node)) == ""
    assert denied(server, f"/api/v1/nodes/{pod.node}/status", {"conditions": conditions("True")[:1]}, "") == ""
    (of_pod,), of_node = pod_trials([pod.served()]), node_trial(pod.node)

    def answers() -> tuple[InForce | NotInForce, InForce | NotInForce]:
        before = pod.served()
        found = tried(server, of_pod, pod.node), tried(server, of_node, pod.node)
        assert pod.served() == before
        return found

    assert all(isinstance(answer, NotInForce) and "may report" in answer.why for answer in answers())
    pod.guard(datetime.now(UTC) + timedelta(hours=1))
    wait(lambda: answers() == (InForce(), NotInForce(f"the kubelet may report node {pod.node} unready")))
    guard(server, f"node_{pod.node}", datetime.now(UTC) + timedelta(hours=1))
    wait(lambda: answers() == (InForce(), InForce()))
    pod.guard(None)
    guard(server, f"node_{pod.node}", None)


def test_a_guard_that_says_nonsense_guards_nothing(guarded: Pod) -> None:
    guarded.server.kubectl("patch", *GUARD, "--type=merge", "-p", json.dumps({"data": {guarded.node: "tomorrow"}}))
    guarded.wait_until_not_guarded()


def tried(server: ApiServer, trial: Trial, kubelet: str) -> InForce | NotInForce:
    """What a dry run of what the agent tries shows of the guard."""
    return trial.judge(*server.patch(f"{trial.path}?dryRun=All", trial.patch, kubelet))


def denied(server: ApiServer, path: str, status: Json, kubelet: str) -> str:
    """Write a status, and return why it was denied; empty when it was not."""
    code, answer = server.patch(path, {"status": status}, kubelet)
    return "" if code == 200 else answer


def guard(server: ApiServer, key: str, moment: datetime | None) -> None:
    data = {key: None if moment is None else timestamp(moment.replace(microsecond=0))}
    server.kubectl("patch", *GUARD, "--type=merge", "-p", json.dumps({"data": data}))


def container(name: str, probes: Mapping[str, Json] | None) -> Json:
    return {"name": name, "image": "registry.k8s.io/pause:3.9", **(probes or {}).get(name, {})}


def running(name: str) -> Json:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    common = {"image": "pause", "imageID": "pause", "ready": True, "started": True, "restartCount": 0}
    return {"name": name, "containerID": f"containerd://{name}", "state": state, **common}


def conditions(ready: str, since: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> list[Json]:
    """The transition time stays that of the first attempt, as a kubelet's does."""
    return [
        {"type": kind, "status": ready, "lastTransitionTime": timestamp(since)} for kind in ("Ready", "ContainersReady")
    ]


def wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
