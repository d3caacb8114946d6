"""What would keep the new kubelet from starting is found on a real node while the old one still runs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.cluster import Cluster, conditions, quickly
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until

OLD, NEW = "1.30.14", "1.33.13"
PODS = 8
GONE_IN_1_33 = "CPUManager"


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


@contextmanager
def configured(cluster: Cluster, **settings: object) -> Iterator[None]:
    """Add to the configuration file of the node's running kubelet, and restore it afterwards."""
    node = cluster.node
    before = node.exec("cat", nodefiles.KUBELET_CONFIG).stdout

    def ready() -> tuple[str, str]:
        """Return whether the API server considers the node ready, and since when."""
        [condition] = [c for c in cluster.node_object()["status"]["conditions"] if c["type"] == "Ready"]
        return condition["status"], condition["lastHeartbeatTime"]

    def run_with(text: str) -> None:
        node.write(nodefiles.KUBELET_CONFIG, text)
        _, told = ready()
        node.exec("systemctl", "restart", "kubelet")
        wait_until(
            "the kubelet", lambda: (ready()[0] == "True" and ready()[1] != told) or None, timeout=120, interval=1
        )

    run_with(json.dumps(json.loads(before) | settings))
    try:
        yield
    finally:
        run_with(before)


def refused(cluster: Cluster, name: str) -> str:
    """Request the upgrade, and return why the node was refused for something that keeps the kubelet from starting."""
    pid = cluster.node.exec("systemctl", "show", "kubelet", "--property=MainPID", "--value").stdout
    cluster.apply(name, NEW, cluster.pre_staged(NEW))

    def said() -> dict[str, Any] | None:
        status = cluster.reported(name)
        return status if status.get("phase") == "Refused" else None

    status = wait_until("the refusal", said, timeout=300, interval=1)
    cluster.delete(name)
    assert status["reason"] == "KubeletWouldNotStart", status
    assert cluster.node.exec("systemctl", "show", "kubelet", "--property=MainPID", "--value").stdout == pid
    return str(status["message"])


def test_a_feature_gate_that_the_new_kubelet_does_not_know(cluster: Cluster) -> None:
    with configured(cluster, featureGates={GONE_IN_1_33: True, "SidecarContainers": True}):
        assert f"unrecognized feature gate: {GONE_IN_1_33}" in refused(cluster, "gate")


def test_a_unit_file_that_systemd_has_not_read(cluster: Cluster) -> None:
    drop_in = "/etc/systemd/system/kubelet.service.d/10-changed.conf"
    cluster.node.write(drop_in, "[Service]\nEnvironment=NEW=1\n")
    try:
        assert "systemctl daemon-reload" in refused(cluster, "unit")
    finally:
        cluster.node.exec("rm", drop_in)


def test_a_node_as_it_should_be_is_upgraded(cluster: Cluster) -> None:
    """Gates that both versions know, set to permitted values, are no obstacle."""
    cluster.node.exec("systemctl", "daemon-reload")
    with configured(cluster, featureGates={"SidecarContainers": True}):
        cluster.apply("sound", NEW, cluster.pre_staged(NEW), verify=quickly())
        upgrade = cluster.wait_for_end("sound")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", upgrade["status"]
