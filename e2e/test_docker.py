"""Docker with dockershim, the runtime of the first reports: there and back, refused where dockershim ends, the control.

The long table, with more pods and more versions, is made by hand (``python -m e2e.pairs --runtime docker``).
"""

from collections.abc import Callable

import pytest

from e2e import hashes
from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.lab.process import wait_until
from e2e.naive import wait_restarted

OLD, NEW, WITHOUT_DOCKERSHIM = "1.15.0", "1.17.17", "1.30.14"
PODS = 12
BACK = {"allowDowngrade": True, "skewPolicy": "Warn"}
"""Both kubelets are older than the control plane of the lab supports."""


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster("e2e-docker", OLD, pods=PODS, runtime="docker")
    made.wait_settled()
    return made


def test_every_stored_hash_is_the_one_that_we_compute(cluster: Cluster) -> None:
    hashes.assert_reproduced(cluster, OLD)


@pytest.mark.parametrize(("name", "version"), [("up", NEW), ("down", OLD)])
def test_nothing_restarts_there_and_back(cluster: Cluster, name: str, version: str) -> None:
    before = cluster.wait_settled()

    cluster.apply(name, version, cluster.pre_staged(version), verify=quickly(), **BACK)
    upgrade = cluster.wait_for_end(name)

    assert conditions(upgrade)["Succeeded"]["status"] == "True", (upgrade["status"], cluster.task()["status"])
    after = cluster.wait_settled()
    assert disturbed(before, after) == []
    assert cluster.kubelet_version() == version
    compared = {c.id: c for c in before.running()}
    changed = {c.id for c in after.running() if c.id in compared and c.stored_hash != compared[c.id].stored_hash}
    assert len(changed) > PODS, "the hashes of all containers differ between these kubelets"
    cluster.delete(name)


def test_a_kubelet_without_dockershim_is_refused_before_anything_is_touched(cluster: Cluster) -> None:
    cluster.wait_without_agent()
    before = cluster.wait_settled()

    cluster.apply("too-far", WITHOUT_DOCKERSHIM, cluster.pre_staged(WITHOUT_DOCKERSHIM), verify=quickly(), **BACK)
    upgrade = cluster.wait_for_end("too-far")

    [failure] = upgrade["status"]["failures"]
    assert failure["reason"] == "UnsupportedRuntime"
    assert f"kubelet v{WITHOUT_DOCKERSHIM} has no dockershim" in failure["message"]
    assert disturbed(before, cluster.wait_settled()) == []
    cluster.delete("too-far")


def reload(cluster: Cluster, *, live_restore: str) -> None:
    """Let dockerd read its configuration again, and wait until it has."""
    cluster.node.exec("systemctl", "reload", "docker")
    asked = ("docker", "info", "--format", "{{.LiveRestoreEnabled}}")
    wait_until("the reload", lambda: cluster.node.exec(*asked).stdout.strip() == live_restore, timeout=60)


def test_a_docker_without_live_restore_is_refused_by_what_it_says_not_by_its_file(cluster: Cluster) -> None:
    cluster.wait_without_agent()
    node, path = cluster.node, "/etc/docker/daemon.json"
    text = node.exec("cat", path).stdout
    node.write(path, text.replace('"live-restore": true', '"live-restore": false'))
    reload(cluster, live_restore="false")
    node.write(path, text)  # the file is right again, the running dockerd is not
    before = cluster.wait_settled()
    try:
        cluster.apply("no-live-restore", NEW, cluster.pre_staged(NEW), verify=quickly(), **BACK)
        upgrade = cluster.wait_for_end("no-live-restore")
    finally:
        reload(cluster, live_restore="true")

    messages = " ".join(failure["message"] for failure in upgrade["status"]["failures"])
    assert "live-restore is not in effect" in messages
    assert disturbed(before, cluster.wait_settled()) == []
    cluster.delete("no-live-restore")


def test_the_control_a_plain_swap_restarts_every_container(cluster: Cluster) -> None:
    cluster.wait_without_agent()
    before = {c.id for c in cluster.wait_settled().running()}
    cluster.node.swap_naively(NEW)
    assert wait_restarted(cluster.node, before) == set()
