"""A cluster that kubeadm made: its kubelets go there and back, and `kubeadm upgrade apply` works afterwards.

The control plane, etcd included, is static pods of a node that is upgraded, too. The tests are one story, in this
order; the control, which restarts everything, comes last. It takes about twenty minutes.
"""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from e2e.changes import restart_kubelet
from e2e.cluster import conditions, disturbed, quickly
from e2e.conftest import CONTROL_PLANE, MakeLab
from e2e.fleet import Fleet
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until

pytestmark = pytest.mark.slow

OLD, NEW = "1.30.14", "1.33.13"
RELEASE = Version.parse(CONTROL_PLANE)
PODS = 6
STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
CONFIG_HASH = "kubernetes.io/config.hash"
UID_LINE = re.compile(r"^(?:  # nodeupgrade: .*\n)?  uid: .*\n", re.MULTILINE)
ENDED = {"True", "False"}
WAITS = "90s"
"""An API server that waits for a restarted etcd is away for more than a minute on a busy machine."""


@dataclass(frozen=True)
class Story:
    """The cluster.

    Attributes:
        fleet: its nodes, with the operator.
        control: the node with the control plane.
        worker: the other one.
        written: the manifests as kubeadm wrote them, by component.
    """

    fleet: Fleet
    control: Node
    worker: Node
    written: Mapping[str, str]


@pytest.fixture(scope="module")
def story(make_lab: MakeLab) -> Story:
    lab = make_lab("kubeadm", OLD, nodes=2, cluster="kubeadm")
    control, worker = lab.nodes.values()
    written = manifests(control)
    return Story(Fleet.with_operator(lab, pods=PODS), control, worker, written)


@dataclass
class Polled:
    """What an API server answered that was asked all the time."""

    answers: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def asked_all_the_time(lab: Lab) -> Iterator[Polled]:
    """Ask the API server for its readiness, again and again, while the body runs."""
    polled, done = Polled(), threading.Event()

    def ask() -> None:
        while not done.wait(0.2):
            try:
                ready = lab.api.ready(timeout=2)
                polled.failures += [] if ready else ["not ready"]
            except LabError as error:
                polled.failures.append(str(error))
            polled.answers += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield polled
    finally:
        done.set()
        thread.join()


def place(component: str) -> str:
    return f"{nodefiles.STATIC_PODS}/{component}.yaml"


def manifests(node: Node) -> dict[str, str]:
    """Return the text of the control plane's manifests by component."""
    return {name: (node.disk / place(name).lstrip("/")).read_text() for name in STATIC_PODS}


def without_lines(texts: Mapping[str, str]) -> dict[str, str]:
    return {name: UID_LINE.sub("", text) for name, text in texts.items()}


def releases(node: Node) -> dict[str, str]:
    """Return the tags of the control plane's images by component."""
    return {name: re.findall(r"image: \S+:(\S+)", text)[0] for name, text in manifests(node).items()}


def instances(node: Node) -> dict[str, str]:
    """Return the running containers of the control plane by component."""
    return {c.name: c.id for c in node.snapshot().running() if c.name in STATIC_PODS}


def config_hash(lab: Lab, node: Node, component: str) -> str:
    """Return the hash that the kubelet computed of a manifest, which is the UID of its pod."""
    pod = lab.api.get("pods", f"{component}-{node.name}", namespace="kube-system")
    return str(pod["metadata"]["annotations"][CONFIG_HASH])


def pin(lab: Lab, node: Node) -> None:
    """Write the UIDs of the running pods into the manifests, as the operator did, unless they are there."""
    hashes = {name: config_hash(lab, node, name) for name in STATIC_PODS}
    node.exec("systemctl", "stop", "kubelet")
    for name, text in without_lines(manifests(node)).items():
        pinned = text.replace("metadata:\n", f'metadata:\n  uid: "{hashes[name]}"\n', 1)
        node.write(place(name), pinned, 0o600)
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()


def take_lines_out(node: Node) -> None:
    """Follow docs/upgrade-and-uninstall.md."""
    words = ("-e", "/# nodeupgrade: the next line/d", "-e", r'/^ *uid: "[0-9a-f]\{32\}"$/d')
    node.exec("systemctl", "stop", "kubelet")
    node.exec("sed", "-i", *words, *(f"{nodefiles.STATIC_PODS}/{component}.yaml" for component in STATIC_PODS))
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()


def upgrade(fleet: Fleet, name: str, version: str, **spec: object) -> None:
    """Upgrade kubelets, and assert that no container of any node restarted and the API server answered all the time."""
    before = fleet.settled()
    with asked_all_the_time(fleet.lab) as polled:
        every = {"all": True, "controlPlane": True}
        fleet.apply(name, version, nodes=every, allowDowngrade=True, verify=quickly(), **spec)
        ended = fleet.wait(name, "its end", lambda it: conditions(it).get("Succeeded", {}).get("status") in ENDED)
    running = sum(len(snapshot.running()) for snapshot in before.values())
    print(f"\n{name}: {running} containers, {polled.answers} polls, {len(polled.failures)} failures")

    assert conditions(ended)["Succeeded"]["status"] == "True", ended["status"]
    assert fleet.disturbed(before) == []
    assert polled.failures == []
    assert polled.answers > 20  # it was asked: a run takes half a minute
    fleet.lab.kubectl("delete", "nodeupgrade", name, "--wait=true", timeout=180)


@pytest.mark.parametrize(("name", "version"), [("there", NEW), ("back", OLD)])
def test_nothing_restarts_and_the_api_server_answers_all_the_time(story: Story, name: str, version: str) -> None:
    upgrade(story.fleet, name, version)

    assert set(story.fleet.versions().values()) == {version}
    assert without_lines(manifests(story.control)) == story.written


def test_after_the_way_back_kubeadm_upgrades_the_control_plane(story: Story) -> None:
    assert manifests(story.control) == story.written

    done = kubeadm.upgrade_apply(story.control, RELEASE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert releases(story.control)["kube-apiserver"] == RELEASE.tag


def test_control_with_the_lines_kubeadm_fails(story: Story) -> None:
    """Versions that left the lines after the way back left such nodes; the UIDs are those of the kubelet itself."""
    before, tags = instances(story.control), releases(story.control)
    pin(story.fleet.lab, story.control)
    story.control.settled()
    assert instances(story.control) == before

    done = kubeadm.upgrade_apply(story.control, RELEASE, waits=WAITS)

    assert done.returncode != 0
    assert "static Pod hash for component etcd on Node node1 did not change" in done.stdout + done.stderr
    wait_until("the API server", story.fleet.lab.api.ready, timeout=180)
    assert releases(story.control) == tags


def test_with_the_lines_taken_out_as_the_page_says_kubeadm_succeeds(story: Story) -> None:
    before = story.control.settled()
    take_lines_out(story.control)
    assert disturbed(before, story.control.settled()) == []

    done = kubeadm.upgrade_apply(story.control, RELEASE)

    assert done.returncode == 0, done.stdout + done.stderr
    tags = releases(story.control)
    assert {name: tag for name, tag in tags.items() if name != "etcd"} == dict.fromkeys(
        (name for name in STATIC_PODS if name != "etcd"), RELEASE.tag
    )


def test_on_a_node_that_stays_on_the_newer_kubelet_kubeadm_replaces_the_static_pods(story: Story) -> None:
    restart_kubelet(story.control)  # kubeadm has written its configuration
    upgrade(story.fleet, "again", NEW)
    assert all(UID_LINE.search(text) for text in manifests(story.control).values())
    before = instances(story.control)

    done = kubeadm.upgrade_apply(story.control, RELEASE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert manifests(story.control) == without_lines(manifests(story.control))
    assert set(instances(story.control).values()) & set(before.values()) == set()


@pytest.mark.parametrize("which", ["worker", "control"])
def test_control_a_naive_swap_restarts_every_container(story: Story, which: str) -> None:
    """Without this, none of the above would prove anything."""
    node: Node = getattr(story, which)
    before = {c.id for c in node.settled().running() if c.name != "sidecar"}
    node.swap_naively(OLD)

    assert {c.id for c in node.settled(quiet=8).running()} & before == set()
