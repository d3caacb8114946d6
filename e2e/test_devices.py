"""Where systemd manages cgroups, a reload takes devices from containers that it does not know of.

Seen by hand (``-m slow``) on a node whose containerd and kubelet use the systemd driver, and with a device that is
added to a container as the legacy hook of NVIDIA's container toolkit does: by the kernel's list alone.
"""

import json
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from e2e.cluster import Cluster, conditions, disturbed, quickly
from e2e.lab.cluster import deploy
from e2e.lab.nodes import nodefiles
from e2e.lab.workloads import workload
from e2e.naive import wait_restarted

pytestmark = pytest.mark.slow

OLD, NEW = "1.30.14", "1.33.13"
PODS = 6
CONTAINERD = "/etc/containerd/config.toml"
SYSTEMD_CGROUP = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = true
"""
GPU = "c 195:0 rw"
POD = "web-1"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster("devices", OLD, pods=PODS, static=False)
    _use_systemd(made)
    made.wait_settled()
    return made


def _use_systemd(cluster: Cluster) -> None:
    """Change the driver of a node, as people do: every container starts anew."""
    node = cluster.node
    node.exec("systemctl", "stop", "kubelet")
    config = (node.disk / CONTAINERD.lstrip("/")).read_text()
    node.write(CONTAINERD, config + SYSTEMD_CGROUP)
    settings = json.loads((node.disk / nodefiles.KUBELET_CONFIG.lstrip("/")).read_text())
    node.write(nodefiles.KUBELET_CONFIG, json.dumps({**settings, "cgroupDriver": "systemd"}))
    old = {container.id for container in node.snapshot().running()}
    node.exec("systemctl", "restart", "containerd")
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()
    assert wait_restarted(node, old) == set()
    workload.wait_running(cluster.lab, count=PODS, timeout=300)
    deploy.wait_available(cluster.lab)


def devices(cluster: Cluster) -> PurePosixPath:
    """Return the path of the kernel's list of devices of a container."""
    (found,) = {c.id for c in cluster.node.snapshot().running() if c.pod.endswith(f"/{POD}")}
    listed = cluster.node.exec("find", "/sys/fs/cgroup/devices", "-name", f"*{found}.scope").stdout
    return PurePosixPath(listed.strip())


def granted(cluster: Cluster) -> set[str]:
    return set(cluster.node.exec("cat", str(devices(cluster) / "devices.list")).stdout.splitlines())


def grant(cluster: Cluster, *, withdrawn: bool = False) -> None:
    file = devices(cluster) / ("devices.deny" if withdrawn else "devices.allow")
    cluster.node.exec("sh", "-c", f"echo '{GPU}' > {file}")


def test_control_a_plain_reload_takes_the_device_and_the_container_runs_on(cluster: Cluster) -> None:
    before, list_ = cluster.wait_settled(), granted(cluster)
    grant(cluster)
    assert granted(cluster) == list_ | {GPU}

    cluster.node.exec("systemctl", "daemon-reload")

    assert granted(cluster) == list_
    assert disturbed(before, cluster.wait_settled()) == []


def test_the_node_is_refused_before_anything_is_touched(cluster: Cluster) -> None:
    grant(cluster)
    cluster.apply("gpu", NEW, cluster.pre_staged(NEW), verify=quickly())
    (found,) = cluster.wait_for_end("gpu")["status"]["failures"]

    assert found["reason"] == "DevicesWouldBeLost"
    assert f"workload/{POD}/" in found["message"]
    assert f"systemd does not know of its devices {GPU}" in found["message"]
    assert GPU in granted(cluster), "nothing has reloaded systemd"
    cluster.delete("gpu")
    grant(cluster, withdrawn=True)


def test_devices_that_systemd_knows_outlast_a_run(cluster: Cluster) -> None:
    before, list_ = cluster.wait_settled(), granted(cluster)
    cluster.apply("up", NEW, cluster.pre_staged(NEW), verify=quickly())
    upgrade = cluster.wait_for_end("up")

    assert conditions(upgrade)["Succeeded"]["status"] == "True", cluster.task()["status"]
    assert disturbed(before, cluster.wait_settled()) == []
    assert granted(cluster) == list_
    cluster.delete("up")
