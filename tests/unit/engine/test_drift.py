"""What is looked at to tell how the kubelet would start: every place, and nothing that systemd or we put there."""

import json
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.domain.node.checks.drift import Start, Was
from nodeupgrade.engine.node.facts import drift
from nodeupgrade.engine.node.facts.gather import kubelet_layout, running_kubelet
from nodeupgrade.engine.node.node import Node
from nodeupgrade.ports.kubelet import Answer, AsKubelet
from tests.doubles.node import SimulatedNode, pod_json

UNIT = "kubelet.service"
CONFIG, DROP_INS, KUBECONFIG = "/var/lib/kubelet/config.yaml", "/etc/kubelet.d", "/etc/kubelet.conf"
WORDS = (f"--config={CONFIG}", f"--config-dir={DROP_INS}", f"--kubeconfig={KUBECONFIG}")
OBJECT: Json = {
    "metadata": {"name": "node-a", "uid": "node-uid"},
    "status": {
        "addresses": [{"type": "Hostname", "address": "node-a"}, {"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    },
}
PEM = "/var/lib/kubelet/pki/kubelet.crt"


class Server:
    """The API server as the kubelet's credentials see it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def read(self, path: str) -> Answer:
        self.asked.append(path)
        return self.answer

    def try_patch(self, path: str, patch: Json) -> Answer:
        raise AssertionError(f"{path} is nothing to be changed: {patch}")


class Host:
    """A simulated node, and an API server."""

    def __init__(self, node: SimulatedNode, server: Server) -> None:
        self.files, self.services, self.kubelet, self.packages = node.files, node.services, node.kubelet, node.packages
        self._node, self._server = node, server

    def node(self, endpoint: str, runtime: str) -> Node:
        raise AssertionError(f"{endpoint} is none of its business")

    def as_kubelet(self, kubeconfig: PurePosixPath) -> AsKubelet:
        assert str(kubeconfig) == KUBECONFIG
        return self._server


@pytest.fixture
def node() -> SimulatedNode:
    made = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")], arguments=WORDS)
    made.disk.update(
        {CONFIG: b"", f"{DROP_INS}/10.conf": b"", f"{DROP_INS}/a/20.conf": b"", KUBECONFIG: b"", PEM: b"its own"}
    )
    return made


def looked(node: SimulatedNode, server: Server | None = None, shown: Json = OBJECT, **unit: Any) -> Start:
    running = running_kubelet(node.services, node.kubelet, UNIT)
    running = replace(running, unit=replace(running.unit, **unit))
    host = Host(node, server or Server(Answer(200, "{}")))
    return drift.look(host, running, kubelet_layout(node.files, running), shown)


def test_everything_that_a_start_reads_is_looked_at(node: SimulatedNode) -> None:
    fragment, ours = f"/usr/lib/systemd/system/{UNIT}", f"/run/systemd/system/{UNIT}.d/10-nodeupgrade-fence.conf"
    drop_in = f"/etc/systemd/system/{UNIT}.d/10-kubeadm.conf"
    start = looked(
        node,
        fragment_path=fragment,
        drop_ins=(drop_in, ours, f"/etc/systemd/system.control/{UNIT}.d/50-CPUWeight.conf"),
        environment_files=(("/etc/default/kubelet", False),),
    )

    by_kind: dict[Was, set[str]] = {}
    for file in start.read:
        by_kind.setdefault(file.was, set()).add(file.path)
    assert by_kind[Was.CONFIGURATION] == {
        CONFIG, DROP_INS, f"{DROP_INS}/10.conf", f"{DROP_INS}/a", f"{DROP_INS}/a/20.conf",
    }  # fmt: skip
    assert by_kind[Was.ENVIRONMENT] == {"/etc/default/kubelet"}
    assert by_kind[Was.UNIT] == {fragment, drop_in}
    assert by_kind[Was.DROP_INS] == {f"{place}/{UNIT}.d" for place in drift.UNIT_DIRECTORIES}
    assert by_kind[Was.IDENTITY] == {KUBECONFIG}
    assert start.environment_files == {"/etc/default/kubelet": None}


def test_every_file_that_a_pattern_stands_for_is_looked_at(node: SimulatedNode) -> None:
    node.disk.update({"/etc/k/1.env": b"A=1", "/etc/k/2.env": b"A=2", "/etc/k/README": b"", "/etc/k/x/3.env": b"A=3"})

    start = looked(node, environment_files=(("/etc/k/*.env", True),))

    assert start.environment_files == {"/etc/k/1.env": b"A=1", "/etc/k/2.env": b"A=2"}
    environment = {file.path for file in start.read if file.was is Was.ENVIRONMENT}
    assert environment == {"/etc/k", "/etc/k/1.env", "/etc/k/2.env"}


def test_the_start_is_the_earlier_of_two_where_the_clock_was_set(node: SimulatedNode) -> None:
    by_kernel = looked(node).started

    assert looked(node, started_at=by_kernel - 1).started == by_kernel
    assert looked(node, started_at=by_kernel - 3600).started == by_kernel - 3600
    assert looked(node, started_at=by_kernel + 3600).started == by_kernel


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        (Answer(200, json.dumps({"metadata": {"uid": "node-uid"}})), True),
        (Answer(200, json.dumps({"metadata": {"uid": "another"}})), False),
        (Answer(401, "Unauthorized"), False),
        (Answer(503, "busy"), None),
        (Answer(200, "<html>"), None),
    ],
)
def test_a_new_kubeconfig_is_tried_and_an_old_one_is_not(
    node: SimulatedNode, answer: Answer, known: bool | None
) -> None:
    server = Server(answer)
    assert looked(node, server).known_to_server is None
    assert server.asked == []

    node.files.touched[KUBECONFIG] = 4e9

    assert looked(node, server).known_to_server is known
    assert server.asked == ["/api/v1/nodes/node-a"]


@pytest.mark.parametrize(
    ("shown", "why"),
    [(OBJECT, "HTTP 403"), ({**OBJECT, "status": {}}, "does not say where it serves")],
)
def test_why_the_kubelet_says_nothing_is_told(node: SimulatedNode, shown: Json, why: str) -> None:
    start = looked(node, shown=shown)

    assert start.running is None
    assert why in start.why_not_asked


def test_the_kubelet_is_asked_only_where_its_certificate_is_on_disk(node: SimulatedNode) -> None:
    node.kubelet.configuration = {"maxPods": 110}
    assert looked(node).running == {"maxPods": 110}

    del node.disk[PEM]

    assert looked(node).running is None
