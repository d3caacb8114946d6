"""A kubelet from a package, on a real node with its own dpkg and apt: held with the upgrade, as before otherwise."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import packages, standin
from e2e.cluster import Cluster, Object, conditions, disturbed, quickly
from e2e.lab.process import wait_until

OLD, NEW = "1.30.14", "1.33.13"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """A node whose kubelet belongs to a package that is not held."""
    made = make_cluster("hold", OLD, pods=6)
    packages.install(made.node)
    made.wait_settled()
    return made


def test_control_without_a_hold_the_node_is_refused_and_the_next_upgrade_would_exchange_the_kubelet(
    cluster: Cluster,
) -> None:
    cluster.apply("refuse", NEW, cluster.pre_staged(NEW))
    (found,) = cluster.wait_for_end("refuse")["status"]["failures"]

    assert found["reason"] == "KubeletFromPackage"
    owner = f"/usr/bin/kubelet belongs to package kubelet {packages.RECORDED} (dpkg), which is not held"
    assert owner in found["message"]
    assert packages.next_upgrade_exchanges_it(cluster.node)
    cluster.delete("refuse")


@pytest.mark.slow
def test_as_long_as_apt_works_the_node_is_left_alone(cluster: Cluster) -> None:
    """It is looked at again by itself, some minutes later."""
    before = packages.status(cluster.node)
    with packages.in_use(cluster.node):
        cluster.apply("busy", NEW, cluster.pre_staged(NEW), **packages.HOLD)
        status = wait_until("the task to be refused", lambda: refused(cluster, "busy"), timeout=240, interval=0.25)

    assert status["reason"] == "ConflictingNodeOperation"
    assert "is using the database of dpkg" in status["message"]
    assert packages.status(cluster.node) == before
    cluster.delete("busy")


def refused(cluster: Cluster, name: str) -> Object | None:
    """Return the status of the node's task once it is refused for this NodeUpgrade."""
    status = cluster.reported(name)
    return status if status.get("phase") == "Refused" else None


def test_a_rollback_leaves_dpkgs_records_as_they_were(cluster: Cluster, tmp_path: Path) -> None:
    before, recorded = cluster.wait_settled(), packages.status(cluster.node)
    exits = cluster.pre_staged_file(standin.program(NEW, tmp_path), NEW)

    cluster.apply("back", NEW, exits, verify=quickly(), **packages.HOLD)
    cluster.wait_for_end("back")
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "KubeletDidNotStart"), status
    steps = {step["name"]: step["result"] for step in status["steps"]}
    assert (steps["hold-package"], steps["stop-kubelet"]) == ("Undone", "Undone")
    assert packages.status(cluster.node) == recorded
    assert packages.selection(cluster.node) == "install"
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == OLD
    cluster.delete("back")


def test_the_package_is_held_and_the_next_upgrade_leaves_the_new_kubelet(cluster: Cluster) -> None:
    before = cluster.wait_settled()
    cluster.apply("up", NEW, cluster.pre_staged(NEW), verify=quickly(), **packages.HOLD)
    upgrade = cluster.wait_for_end("up")
    status = cluster.task()["status"]

    assert conditions(upgrade)["Succeeded"]["status"] == "True", status
    assert disturbed(before, cluster.wait_settled()) == []
    assert cluster.kubelet_version() == NEW
    assert packages.selection(cluster.node) == "hold"
    assert cluster.node.exec("apt-mark", "showhold").stdout.split() == ["kubelet"]
    assert not packages.next_upgrade_exchanges_it(cluster.node)
    recorded = {"manager": "dpkg", "name": "kubelet", "version": packages.RECORDED}
    assert status["kubelet"]["package"] == {**recorded, "held": True, "heldByUs": True}
    assert "apt-mark unhold kubelet" in json.dumps(status["hazards"])
    cluster.delete("up")
