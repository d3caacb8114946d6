"""A containerd whose configuration, root, state and socket are not in the usual places, beside one that is there.

Run by hand, in two minutes: `pytest -m slow e2e/test_containerd_elsewhere.py`.
"""

from collections.abc import Callable

import pytest

from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.lab.runtimes.containerd_elsewhere import OTHER_UNIT
from e2e.naive import survivors

pytestmark = pytest.mark.slow

OLD, NEW = "1.30.14", "1.33.13"
PODS = 12


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster("elsewhere", OLD, pods=PODS, runtime="containerd-elsewhere")
    made.wait_settled()
    return made


def pid(cluster: Cluster, unit: str) -> str:
    return cluster.node.exec("systemctl", "show", unit, "--property=MainPID", "--value").stdout.strip()


@pytest.mark.parametrize(("name", "version"), [("there", NEW), ("back", OLD)])
def test_it_is_found_where_it_is_and_nothing_restarts(cluster: Cluster, name: str, version: str) -> None:
    before, other, used = cluster.node.snapshot(), pid(cluster, OTHER_UNIT), pid(cluster, "containerd.service")
    with cluster.url(version) as artifact:
        cluster.apply(name, version, artifact, allowDowngrade=True, verify=quickly())

        upgrade = cluster.wait_for_end(name)

    assert conditions(upgrade)["Succeeded"]["status"] == "True", cluster.task()["status"]
    assert cluster.kubelet_version() == version
    assert disturbed(before, cluster.node.snapshot()) == []
    assert pid(cluster, "containerd.service") != used, "the one that the kubelet uses was restarted"
    assert pid(cluster, OTHER_UNIT) == other != "0", "the other one was not"
    assert (cluster.node.disk / "data/containerd/io.containerd.metadata.v1.bolt/meta.db").exists()
    cluster.delete(name)


def test_control_the_naive_swap_restarts_everything(cluster: Cluster) -> None:
    assert len(cluster.node.snapshot().running()) >= PODS
    assert survivors(cluster.node, OLD if cluster.kubelet_version() == NEW else NEW) == set()
