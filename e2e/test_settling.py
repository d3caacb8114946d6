"""What ends during the settle period on a real node for no known reason, or since the shield is off.

What ends by itself or with its deleted pod is in test_shield.py.
"""

from collections.abc import Callable

import pytest

from e2e.cluster import HELD_UP, NOTICED, Cluster, disturbed, quickly
from e2e.faults import tamper
from e2e.lab.workloads import workload

OLD, NEW = "1.30.14", "1.33.13"
PODS = 8
STAYS = "trap 'exit 3' TERM; while :; do sleep 0.2; done"
KILLED = "killed"


@pytest.fixture(scope="module")
def cluster(shared_cluster: Callable[..., Cluster]) -> Cluster:
    return shared_cluster(pods=PODS)


def settling(cluster: Cluster, name: str, version: str, **spec: object) -> None:
    """Start an upgrade, and return when the new kubelet is being watched."""
    cluster.wait_settled()
    cluster.apply(name, version, cluster.pre_staged(version), verify=quickly(settle=NOTICED), **spec)
    cluster.wait_settling(name)


def signal(cluster: Cluster, pod: str, name: str) -> None:
    [container] = [c for c in cluster.node.snapshot().running() if c.pod == f"{workload.NAMESPACE}/{pod}"]
    cluster.node.exec("kill", f"-{name}", str(container.pid))


def test_a_container_killed_by_nobody_knows_whom_turns_the_run_back_at_once(cluster: Cluster) -> None:
    workload.start_pod(cluster.lab, KILLED, STAYS, node=cluster.node.name)

    settling(cluster, "killed", NEW)
    signal(cluster, KILLED, "KILL")
    cluster.wait_for_end("killed")
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "ContainerRestarted"), status
    assert status["containers"]["restartedList"] == [f"{workload.NAMESPACE}/{KILLED}/main"]
    assert f"{workload.NAMESPACE}/{KILLED}/main" in status["message"]
    assert "it carried hash" in status["message"]
    assert cluster.kubelet_version() == OLD
    cluster.delete("killed")


def test_a_container_with_a_wrong_hash_has_the_kubelet_stopped_and_is_told_with_its_hash(cluster: Cluster) -> None:
    """The control of test_shield.py. The hash is stored after everything was read back, before it is compared."""
    before = cluster.wait_settled()
    victim = next(c for c in before.running() if c.name == "web" and "static" not in c.pod)
    program = cluster.pre_staged(NEW)
    wanted = quickly(settle=NOTICED, shield="Off", **HELD_UP)

    tamper.give_wrong_hash(cluster, "wrong", victim.id, lambda: cluster.apply("wrong", NEW, program, verify=wanted))
    status = cluster.task()["status"]

    assert (status["phase"], status["reason"]) == ("RolledBack", "ContainerRestarted"), status
    assert status["containers"]["restartedList"] == [f"{victim.pod}/{victim.name}"]
    assert f"{victim.pod}/{victim.name} restarted" in status["message"]
    assert "it carried hash" in status["message"]
    changed = {d.id for d in disturbed(before, cluster.wait_settled())}
    assert changed & {c.id for c in before.running()} == {victim.id}
    assert cluster.kubelet_version() == OLD
    cluster.delete("wrong")
