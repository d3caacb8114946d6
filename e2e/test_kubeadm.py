"""A cluster that kubeadm made: its kubelets go there and back, and `kubeadm upgrade apply` works afterwards.

The control plane, etcd included, is static pods of a node that is upgraded, too. The tests are one story, in this
order; the control, which restarts everything, comes last. It takes about twenty minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from e2e.changes import restart_kubelet
from e2e.cluster import disturbed
from e2e.conftest import CONTROL_PLANE, MakeLab
from e2e.fleet import Fleet
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.kubeadm.static_pods import (
    STATIC_PODS,
    UID_LINE,
    instances,
    manifests,
    pin,
    releases,
    take_lines_out,
    without_lines,
)
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until
from e2e.naive import survivors

pytestmark = pytest.mark.slow

RELEASE = Version.parse(CONTROL_PLANE)
PODS = 6
WAITS = "90s"
"""An API server that waits for a restarted etcd is away for more than a minute on a busy machine."""


@dataclass(frozen=True)
class Story:
    """The cluster."""

    fleet: Fleet  # its nodes, with the operator
    control: Node  # the node with the control plane
    worker: Node  # the other one
    written: Mapping[str, str]  # the manifests as kubeadm wrote them, by component


@pytest.fixture(scope="module")
def story(make_lab: MakeLab) -> Story:
    lab = make_lab("kubeadm", OLD, nodes=2, cluster="kubeadm")
    control, worker = lab.nodes.values()
    written = manifests(control)
    return Story(Fleet.with_operator(lab, pods=PODS), control, worker, written)


def upgrade(fleet: Fleet, name: str, version: str) -> None:
    """Upgrade kubelets, and assert that no container of any node restarted and the API server answered all the time."""
    every = {"all": True, "controlPlane": True}
    run = Stage(fleet).upgrade(name, version, list(fleet.nodes.values()), nodes=every)
    print(f"\n{name}: {run.containers} containers, API server asked {run.watch.servers}, etcd {run.watch.etcd}")

    assert list(run.wrong()) == []
    assert run.watch.servers.answers > 20  # it was asked: a run takes half a minute


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

    assert survivors(node, OLD) == set()
