"""Restarting a kubelet 1.12 takes pods out of their Service although they run on; an upgrade from it with us does not.

Its runtime is Docker with dockershim. Takes minutes, and its kubelet minutes more to build: by hand only.
"""

import pytest

from e2e import clients
from e2e.cluster import Cluster, disturbed
from e2e.conftest import MakeLab
from e2e.test_guard import PODS, SLOWEST, nobody_noticed

pytestmark = pytest.mark.slow

OLD, NEW = "1.12.10", "1.17.17"


@pytest.fixture(scope="module")
def cluster(make_lab: MakeLab) -> Cluster:
    return clients.with_clients(make_lab("e2e-old-readiness", OLD, runtime="docker"), PODS, slowest=SLOWEST)


def test_control_a_plain_restart_makes_pods_unready_that_run_on(cluster: Cluster) -> None:
    before = cluster.wait_settled()

    found = clients.restart(cluster, pods=PODS)

    print(found.row())
    assert disturbed(before, cluster.wait_settled()) == []
    assert found.seen.endpoints_lost
    assert clients.served(found.seen.pods_unready)


def test_with_the_guard_nobody_notices_the_upgrade(cluster: Cluster) -> None:
    found = clients.swap(cluster, NEW, "Require", pods=PODS)

    print(found.row())
    nobody_noticed(cluster, found)
