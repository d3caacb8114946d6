"""The recipe of docs/kubeadm.md, typed as it is written on a cluster that kubeadm made.

Only what a lab has not is left out of kubeadm's work: its addons, and preflight checks of the machine.
"""

import hashlib
from pathlib import Path

import pytest

from e2e import pages
from e2e.cluster import Cluster
from e2e.conftest import MakeLab
from e2e.fleet import Fleet
from e2e.kubeadm import static_pods
from e2e.kubeadm.stage import NEW, OLD
from e2e.lab.binaries import components
from e2e.lab.cluster import kubeadm
from e2e.lab.nodes.node import Node
from e2e.naive import survivors

pytestmark = pytest.mark.slow

FILE = "kubelets.yaml"
SECONDS = 1500.0


@pytest.fixture(scope="module")
def fleet(make_lab: MakeLab) -> Fleet:
    return Fleet.with_operator(make_lab("kubeadm-page", OLD, nodes=2, cluster="kubeadm"), pods=6)


def type_on(node: Node, commands: list[str]) -> None:
    """Type the page's commands on a node; each must succeed."""
    assert commands
    for command in commands:
        words = command.replace("kubeadm upgrade apply v1.33.13", f"kubeadm upgrade apply v1.33.13 {kubeadm.FLAGS}")
        words = words.replace("kubeadm upgrade node", f"kubeadm upgrade node {kubeadm.FLAGS}")
        node.exec("sh", "-euc", words, timeout=SECONDS)


def test_the_control_plane_is_upgraded(fleet: Fleet) -> None:
    control, _ = fleet.nodes.values()

    type_on(control, pages.commands("kubeadm-first"))

    control.wait_kubelet_healthy()
    fleet.lab.wait_ready()
    assert static_pods.releases(control)["kube-apiserver"] == f"v{NEW}"


def test_the_kubelets_are_upgraded_and_nothing_restarts(fleet: Fleet, tmp_path: Path) -> None:
    for node in fleet.nodes.values():
        Cluster(fleet.lab, node).pre_staged(NEW)
    digest = hashlib.sha256(components.resolve("kubelet", NEW).read_bytes()).hexdigest()
    (tmp_path / FILE).write_text(pages.file(FILE).replace("…64 hex digits…", digest))
    before = fleet.settled()

    for command in pages.commands("kubeadm-kubelets"):
        typed = command.replace(FILE, str(tmp_path / FILE)).replace("kubectl", str(fleet.lab.kubectl_binary))
        fleet.lab.exec("sh", "-euc", typed, timeout=SECONDS)

    assert set(fleet.versions().values()) == {NEW}
    assert fleet.disturbed(before) == []


def test_the_workers_take_over_the_cluster_s_configuration(fleet: Fleet) -> None:
    _, worker = fleet.nodes.values()
    before = fleet.settled()

    type_on(worker, pages.commands("kubeadm-workers"))

    worker.wait_kubelet_healthy()
    assert fleet.disturbed(before) == []


def test_control_a_naive_swap_restarts_every_container(fleet: Fleet) -> None:
    """Without this, nothing of the above would be proved."""
    for node in fleet.nodes.values():
        assert survivors(node, OLD) == set()
