"""The readiness guard where things go wrong or take long, on a real node; minutes each, so they are run by hand."""

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e import clients, standin
from e2e.cluster import Cluster, Object
from e2e.conftest import MakeLab
from e2e.faults.run import FaultRun
from e2e.lab.cluster import deploy
from e2e.lab.nodes import asnode
from e2e.lab.process import wait_until
from e2e.lab.workloads import probed
from e2e.test_guard import NEW, OLD, PODS, SLOWEST, guarded_nodes, nobody_noticed
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelet.probe_delay import exposure
from nodeupgrade.node.failpoints.failpoints import When, at

pytestmark = pytest.mark.slow
WINDOW = 30.0


@pytest.fixture(scope="module")
def cluster(make_lab: MakeLab) -> Cluster:
    return clients.with_clients(make_lab("e2e-guard-long", OLD), PODS, slowest=SLOWEST)


@contextlib.contextmanager
def without_a_kubelet_for(seconds: float, cluster: Cluster) -> Iterator[None]:
    """Hold the next run for so long right before the swap."""
    failpoint = at(Step.READ_BACK, When.DONE)
    run = FaultRun(cluster, "held", OLD, NEW, {})

    def hold() -> None:
        run.wait_hit(failpoint, timeout=300)
        time.sleep(seconds)
        run.release(failpoint)

    run.arm(failpoint, "hang")
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        run.disarm()


def test_a_kubelet_that_does_not_start_is_rolled_back_and_nobody_notices(cluster: Cluster, tmp_path: Path) -> None:
    exits = cluster.pre_staged_file(standin.program(NEW, tmp_path), NEW)

    found = clients.swap(cluster, NEW, "Require", pods=PODS, artifact=exits)

    print(found.row())
    nobody_noticed(cluster, found, "RolledBack")


def test_nor_is_half_a_minute_without_a_kubelet_noticed(cluster: Cluster) -> None:
    verify = {"settle": "4s", "readinessGuard": "Require", "kubeletDownBudget": "90s"}
    with without_a_kubelet_for(WINDOW, cluster):
        found = clients.swap(cluster, NEW, "Require", pods=PODS, verify=verify)

    print(found.row())
    assert found.status["kubelet"]["downSeconds"] > WINDOW
    nobody_noticed(cluster, found)


def test_nor_a_rollback_after_it(cluster: Cluster, tmp_path: Path) -> None:
    exits = cluster.pre_staged_file(standin.program(OLD, tmp_path), OLD)
    verify = {"settle": "4s", "readinessGuard": "Require", "kubeletDownBudget": "90s"}

    with without_a_kubelet_for(WINDOW, cluster):
        found = clients.swap(cluster, OLD, "Require", pods=PODS, verify=verify, artifact=exits)

    print(found.row())
    nobody_noticed(cluster, found, "RolledBack")


def test_a_guard_ends_by_itself_when_nobody_is_left_to_lift_it(cluster: Cluster) -> None:
    pod, page = victim(cluster)
    name = f"{probed.NAMESPACE}/{pod['metadata']['name']}"
    cluster.wait_settled()
    verify = {"settle": "4s", "readinessGuard": "Require", "kubeletDownBudget": "10s"}
    cluster.apply("left", OLD, cluster.pre_staged(OLD), allowDowngrade=True, verify=verify)
    moment = wait_until("the guard", lambda: guarded_nodes(cluster).get(cluster.node.name), timeout=300)
    with nobody_left(cluster):
        page.touch()  # from now on the pod's probe fails
        ends = datetime.fromisoformat(moment) + exposure(pod)
        refused: list[datetime] = []
        while asnode.DENIED in asnode.objection_to_unready(cluster.lab, cluster.node, name):
            refused.append(datetime.now(UTC))
            assert is_ready(cluster, pod)
        taken = datetime.now(UTC)
        wait_until("the pod to be unready", lambda: not is_ready(cluster, pod), timeout=60)
        unready = datetime.now(UTC)
        print(f"{name}: guard until {ends}, last refused {refused[-1]}, taken {taken}, unready {unready}")
        assert guarded_nodes(cluster), "somebody lifted it"

    assert refused
    assert (taken - ends).total_seconds() > -1
    assert refused[-1] < ends
    page.unlink()
    cluster.wait_for_end("left")
    wait_until("an end of the guard", lambda: not guarded_nodes(cluster), timeout=120)
    probed.wait_ready(cluster.lab, PODS)
    cluster.delete("left")


def victim(cluster: Cluster) -> tuple[Object, Path]:
    """A pod, and the file that makes it unready."""
    pods = cluster.lab.api.list("pods", namespace=probed.NAMESPACE)
    pod = next(pod for pod in pods if pod["metadata"]["name"].startswith("exec-5-"))
    name = f"{probed.NAMESPACE}/{pod['metadata']['name']}"
    [pid] = [c.pid for c in cluster.node.snapshot().running() if c.pod == name]
    return pod, cluster.node.root / f"proc/{pid}/root{probed.UNREADY}"


def is_ready(cluster: Cluster, pod: Object) -> bool:
    """Report whether the API server considers a pod Ready."""
    return probed.is_ready(cluster.lab.api.get("pods", pod["metadata"]["name"], namespace=probed.NAMESPACE))


@contextlib.contextmanager
def nobody_left(cluster: Cluster) -> Iterator[None]:
    """Kill the operator and the agent, and keep the operator away."""
    deployment = ("scale", "-n", deploy.NAMESPACE, f"deployment/{deploy.DEPLOYMENT}")
    cluster.lab.kubectl(*deployment, "--replicas=0")
    cluster.lab.kubectl(
        "delete", "pods", "-n", deploy.NAMESPACE, "--all", "--force", "--grace-period=0", "--wait=false"
    )
    try:
        yield
    finally:
        cluster.lab.kubectl(*deployment, "--replicas=1")
