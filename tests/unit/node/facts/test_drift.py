"""What is looked at to tell how the kubelet would start: every place, and nothing that systemd or we put there."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.node.checks.kubelet_start import FileRole, Start
from nodeupgrade.node.executor import units
from nodeupgrade.node.facts import drift
from nodeupgrade.node.facts.gather import kubelet_layout, running_kubelet
from nodeupgrade.node.host.systemd.drop_ins import OWN_CHANGE
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kubelet import Answer, AsKubelet
from tests.builders.executor_plan import BUNDLES, PLAN
from tests.builders.looks import at_once
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
        self.clock, self._node, self._server = node.ports.clock, node, server

    def node(self, endpoint: str, runtime: str) -> Node:
        raise AssertionError(f"{endpoint} is none of its business")

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> AsKubelet:
        assert (str(kubeconfig), pid > 0) == (KUBECONFIG, True)
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

    by_kind: dict[FileRole, set[str]] = {}
    for file in start.read:
        by_kind.setdefault(file.was, set()).add(file.path)
    assert by_kind[FileRole.CONFIGURATION] == {
        CONFIG, DROP_INS, f"{DROP_INS}/10.conf", f"{DROP_INS}/a", f"{DROP_INS}/a/20.conf",
    }  # fmt: skip
    assert by_kind[FileRole.ENVIRONMENT] == {"/etc/default/kubelet"}
    assert by_kind[FileRole.UNIT] == {fragment, drop_in}
    assert by_kind[FileRole.DROP_INS] == {f"{place}/{UNIT}.d" for place in drift.UNIT_DIRECTORIES}
    assert by_kind[FileRole.IDENTITY] == {KUBECONFIG}
    assert start.environment_files == {"/etc/default/kubelet": None}


@pytest.mark.parametrize(
    ("leads_to", "looked_at"),
    [("/usr/bin/kubelet", False), ("/opt/kubelet-1.29/kubelet", True), ("/opt/start", True)],
)
def test_a_link_counts_if_it_leads_elsewhere_now(
    node: SimulatedNode, monkeypatch: pytest.MonkeyPatch, leads_to: str, looked_at: bool
) -> None:
    """What it leads to was exchanged by the last run, and is compared by its digest."""
    link = "/usr/local/bin/kubelet"
    real = node.files.real
    monkeypatch.setattr(node.files, "real", lambda path: PurePosixPath(leads_to) if str(path) == link else real(path))
    assert str(running_kubelet(node.services, node.kubelet, UNIT).program) == "/usr/bin/kubelet"

    read = {file.path for file in looked(node, program=link).read if file.was is FileRole.UNIT}

    assert (link in read) is looked_at


def test_every_file_that_a_pattern_stands_for_is_looked_at(node: SimulatedNode) -> None:
    node.disk.update({"/etc/k/1.env": b"A=1", "/etc/k/2.env": b"A=2", "/etc/k/README": b"", "/etc/k/x/3.env": b"A=3"})

    start = looked(node, environment_files=(("/etc/k/*.env", True),))

    assert start.environment_files == {"/etc/k/1.env": b"A=1", "/etc/k/2.env": b"A=2"}
    environment = {file.path for file in start.read if file.was is FileRole.ENVIRONMENT}
    assert environment == {"/etc/k", "/etc/k/1.env", "/etc/k/2.env"}


def test_what_a_run_did_to_the_directory_of_drop_ins_is_left_out(node: SimulatedNode) -> None:
    place, others = PurePosixPath(f"/etc/systemd/system/{UNIT}.d"), 1e9 - 60

    def found() -> float:
        return next(file.changed for file in looked(node).read if file.path == str(place))

    node.disk[f"{place}/10-kubeadm.conf"] = b"[Service]\n"
    node.files.touched[str(place)] = others
    with changing(node, place, 4e9):
        units.install(node.ports.files, node.ports.services, BUNDLES, PLAN, look=at_once)
    with changing(node, place, 4e9 + 1):
        units.remove(node.ports.files, node.ports.services, UNIT, [])
    assert found() == others

    node.files.touched[str(place)] = 4e9 + 2
    assert found() == 4e9 + 2, "somebody else has changed it since"

    with changing(node, place, 4e9 + 3, gone=f"{place}/10-kubeadm.conf"):
        units.install(node.ports.files, node.ports.services, BUNDLES, PLAN, look=at_once)
    assert found() == 4e9 + 3, "somebody else has removed a drop-in meanwhile"

    node.disk[str(OWN_CHANGE)] = b"{"
    assert found() == 4e9 + 3


@contextmanager
def changing(node: SimulatedNode, place: PurePosixPath, when: float, gone: str = "") -> Iterator[None]:
    """Have every change of our drop-in change its directory, too."""
    real: dict[str, Callable[..., None]] = {"write": node.files.write, "remove": node.files.remove}

    def change(how: str, path: PurePosixPath, *data: bytes, **mode: int) -> None:
        there = str(path) in node.disk
        real[how](path, *data, **mode)
        if path.parent == place and (how == "write" or there):
            node.files.touched[str(place)] = when
            node.disk.pop(gone, None)

    with pytest.MonkeyPatch.context() as patch:
        for how in real:
            patch.setattr(node.files, how, partial(change, how))
        yield


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
