"""Pods that their own rules restart while a real kubelet is upgraded: not damage, and told as what they are.

It needs kubelets and an API server that are seldom built, so it is run by hand.
"""

from collections.abc import Iterator

import pytest

from e2e.cluster import NOTICED, Cluster, Object, conditions, quickly
from e2e.lab import Lab, LabSpec
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from e2e.lab.workloads import workload
from e2e.lab.workloads.workload import NAMESPACE

pytestmark = pytest.mark.slow

OLD, NEW = "1.36.2", "1.36.3"
PODS = 8
CODE = 88
ENDS = f"trap 'exit {CODE}' USR1; while :; do sleep 0.2; done"
STAYS = "while :; do sleep 0.2; done"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [CODE]}}]
ALL = [f"{NAMESPACE}/train/{name}" for name in ("main", "peer", "proxy")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    lab = Lab.anew(LabSpec(name="e2e-restart-rules", kubelet=OLD, control_plane=NEW), Lines())
    try:
        yield Cluster.with_operator(lab, pods=PODS)
    finally:
        lab.down()


def start_training(cluster: Cluster) -> None:
    main = workload.container("main", ENDS) | {"restartPolicy": "Never", "restartPolicyRules": RULES}
    spec: Object = {
        "restartPolicy": "Never",
        "initContainers": [workload.container("proxy", STAYS) | {"restartPolicy": "Always"}],
        "containers": [main, workload.container("peer", STAYS)],
    }
    cluster.lab.apply(workload.pod("train", spec, cluster.node.name))
    cluster.lab.kubectl_wait("wait", "-n", NAMESPACE, "pod/train", "--for=condition=Ready", timeout=60)


def end_main(cluster: Cluster) -> None:
    """Make the container end with the exit code that its rule is about."""
    [main] = [c for c in cluster.node.snapshot().running() if (c.pod, c.name) == (f"{NAMESPACE}/train", "main")]
    cluster.node.exec("kill", "-USR1", str(main.pid))


def upgraded(cluster: Cluster, name: str, version: str, **verify: object) -> Object:
    """Upgrade; while the new kubelet is being watched, let the container end. Return the task's status."""
    cluster.wait_settled()
    wanted = quickly(settle=NOTICED, **verify)
    cluster.apply(name, version, cluster.pre_staged(version), verify=wanted, allowDowngrade=True)
    cluster.wait_settling(name)
    end_main(cluster)
    cluster.wait_for_end(name)
    status: Object = cluster.task()["status"]
    return status


def labels(node: NodeSnapshot) -> set[str]:
    return {f"{c.pod}/{c.name}" for c in node.running()}


def replaced(before: NodeSnapshot, after: NodeSnapshot) -> set[str]:
    """Return the containers that ran before and do not afterwards."""
    kept = {c.id for c in after.running()}
    return {f"{c.pod}/{c.name}" for c in before.running() if c.id not in kept}


def test_control_the_kubelet_restarts_the_whole_pod_by_itself(cluster: Cluster) -> None:
    start_training(cluster)
    before = cluster.wait_settled()

    end_main(cluster)
    wait_until("others", lambda: replaced(before, cluster.node.snapshot()) == {*ALL}, timeout=60)

    after = cluster.wait_settled()
    assert replaced(before, after) == {*ALL}
    assert labels(after) == labels(before)


def test_a_pod_that_its_own_rule_restarts_is_not_damaged(cluster: Cluster) -> None:
    before = cluster.wait_settled()

    status = upgraded(cluster, "by-rule", NEW)

    assert status["phase"] == "Succeeded", status
    assert status["containers"]["restarted"] == 0, status
    assert sorted(status["containers"]["endedList"]) == ALL, status
    assert conditions(cluster.get("by-rule"))["Succeeded"]["status"] == "True"
    after = cluster.wait_settled()
    assert replaced(before, after) == {*ALL}
    assert labels(after) == labels(before)
    assert cluster.kubelet_version() == NEW
    cluster.delete("by-rule")


def test_control_without_the_shield_nobody_can_tell_why_so_the_run_goes_back(cluster: Cluster) -> None:
    status = upgraded(cluster, "unseen", OLD, shield="Off")

    assert (status["phase"], status["reason"]) == ("RolledBack", "ContainerRestarted"), status
    assert cluster.kubelet_version() == NEW
    cluster.delete("unseen")
