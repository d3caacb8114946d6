"""A containerd that would not come back as it runs, and units that do more than start a program, are refused.

Everything is examined by `action: Plan` on a real node that is otherwise in order; each test restores the node.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.changes import restart_runtime
from e2e.cluster import Cluster, Object, conditions, quickly
from e2e.lab.workloads import splitpods, workload
from e2e.looks import look

OLD, NEW = "1.30.14", "1.33.13"
PODS = 8
CONFIG = "/etc/containerd/config.toml"
KUBELET_DROP_IN = "/etc/systemd/system/kubelet.service.d/10-site.conf"


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


def looked_at(cluster: Cluster, name: str) -> Object:
    """Have the node examined, and return its task's status."""
    status = look(cluster, name, NEW).task
    print(f"{name}: {status['phase']} {status['reason']}: {status['message']}")
    return status


@contextmanager
def configured(cluster: Cluster, edit: Callable[[str], str]) -> Iterator[None]:
    """Change containerd's configuration on the disk only."""
    before = cluster.node.exec("cat", CONFIG).stdout
    cluster.node.write(CONFIG, edit(before))
    try:
        yield
    finally:
        cluster.node.write(CONFIG, before)
        restart_runtime(cluster.node)


def test_a_configuration_that_containerd_cannot_read(cluster: Cluster) -> None:
    with configured(cluster, lambda text: f"{text}\nbroken = = 1\n"):
        status = looked_at(cluster, "broken")

    assert (status["phase"], status["reason"]) == ("Refused", "RuntimeConfigurationDrift")
    assert CONFIG in status["message"]
    assert "failed to load TOML" in status["message"]


def test_another_root(cluster: Cluster) -> None:
    with configured(cluster, lambda text: f'root = "/var/lib/elsewhere"\n{text}'):
        status = looked_at(cluster, "root")

    assert (status["phase"], status["reason"]) == ("Refused", "RuntimeConfigurationDrift")
    assert "runs with root /var/lib/containerd and would start with /var/lib/elsewhere" in status["message"]


def test_a_change_that_has_yet_to_count_and_one_that_counts(cluster: Cluster) -> None:
    """The remedy that the message names works."""
    with configured(cluster, lambda text: f"{text}\n[metrics]\n  grpc_histogram = false\n"):
        status = looked_at(cluster, "changed")
        assert (status["phase"], status["reason"]) == ("Refused", "RuntimeConfigurationDrift")
        assert f"{CONFIG}: changed after containerd.service was started" in status["message"]
        restart_runtime(cluster.node)
        assert looked_at(cluster, "counts")["phase"] == "Prechecked"


def test_a_command_before_the_kubelet(cluster: Cluster) -> None:
    line = "ExecStartPre=/bin/cp /opt/old/kubelet /usr/bin/kubelet"
    cluster.node.write(KUBELET_DROP_IN, f"[Service]\n{line}\n")
    cluster.node.exec("systemctl", "daemon-reload")
    try:
        status = looked_at(cluster, "command")
    finally:
        cluster.node.exec("rm", KUBELET_DROP_IN)
        cluster.node.exec("systemctl", "daemon-reload")

    assert (status["phase"], status["reason"]) == ("Refused", "UnsupportedUnitCommand")
    assert line in status["message"]


def test_a_container_with_a_shim_of_its_own(cluster: Cluster) -> None:
    """Made as containerd itself makes one: the shim's socket is gone when the container is started again."""
    node = cluster.node
    victim = next(c for c in node.snapshot().running() if c.pod.startswith("workload/web-"))
    splitpods.split(cluster.lab, node, victim)
    status = looked_at(cluster, "shim")

    assert (status["phase"], status["reason"]) == ("Refused", "RuntimeRestartWouldKillPod")
    assert [hazard["pod"] for hazard in status["hazards"] if not hazard.get("warning")] == [
        f"{victim.pod}/{victim.name}"
    ]
    namespace, _, pod = victim.pod.partition("/")
    assert splitpods.make_anew(cluster.lab, namespace)
    cluster.lab.kubectl_wait("wait", "-n", namespace, f"pod/{pod}", "--for=condition=Ready", timeout=60)
    assert not splitpods.make_anew(cluster.lab, namespace)
    workload.start(cluster.lab, workload.mixed_workload(PODS, node.name, kubelet=OLD))  # as it was, for who applies it
    assert looked_at(cluster, "deleted")["phase"] == "Prechecked"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version"), [("there", NEW), ("back", OLD)])
def test_control_a_node_in_order_is_upgraded_and_once_more(cluster: Cluster, name: str, version: str) -> None:
    """The second run meets a containerd that the first one started with a configuration that is gone."""
    verify = quickly()
    cluster.apply(name, version, cluster.pre_staged(version), allowDowngrade=True, verify=verify)

    upgrade = cluster.wait_for_end(name)

    assert conditions(upgrade)["Succeeded"]["status"] == "True", cluster.task()["status"]
    assert cluster.task()["status"]["containers"]["restarted"] == 0
    cluster.delete(name)
